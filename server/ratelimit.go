package server

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/time/rate"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// RateLimit limits the requests of each tenant to this server. Servers that share a store count separately. PerSecond
// 0 means no limit. Burst 0 allows one second's requests at once, at least one.
type RateLimit struct {
	PerSecond float64
	Burst     int
}

func (l RateLimit) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(1, int(math.Ceil(l.PerSecond)))
}

// maxRates is the number of tenants from which those with a full bucket are forgotten. Nothing is lost, because a new
// bucket is full, too.
const maxRates = 10_000

// rates holds a token bucket for each tenant that sends requests.
type rates struct {
	limit   RateLimit
	mu      sync.Mutex
	tenants map[string]*rate.Limiter
}

// of returns the bucket of a tenant, which it creates if needed.
func (r *rates) of(tenant string, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.tenants[tenant]; ok {
		return l
	}
	full := float64(r.limit.burst())
	if len(r.tenants) >= maxRates {
		for name, l := range r.tenants {
			if l.TokensAt(now) >= full {
				delete(r.tenants, name)
			}
		}
	}
	if r.tenants == nil {
		r.tenants = map[string]*rate.Limiter{}
	}
	l := rate.NewLimiter(rate.Limit(r.limit.PerSecond), r.limit.burst())
	r.tenants[tenant] = l
	return l
}

// limitRate counts a request against its tenant, whichever key it uses, and sets headers that say how many requests
// are left. It fails with rate_limited if none is. The operator is not limited.
func (x *exchange) limitRate() error {
	limit := x.s.rates.limit
	if limit.PerSecond == 0 || x.route.role == open || x.caller.Role == ident.RoleRoot {
		return nil
	}
	now := x.s.now()
	bucket := x.s.rates.of(x.caller.Tenant, now)
	allowed := bucket.AllowN(now, 1)
	tokens := max(0, bucket.TokensAt(now))
	seconds := func(missing float64) int { return int(math.Ceil(missing / limit.PerSecond)) }
	burst := limit.burst()
	full, left := seconds(float64(burst)-tokens), int(tokens)

	// These are the headers of draft-ietf-httpapi-ratelimit-headers and of its earlier versions, which most clients
	// read.
	h := &x.c.Response().Header
	h.Set("RateLimit-Policy", fmt.Sprintf(`"tenant";q=%d;w=%d`, burst, max(1, seconds(float64(burst)))))
	h.Set("RateLimit", fmt.Sprintf(`"tenant";r=%d;t=%d`, left, full))
	h.Set("RateLimit-Limit", strconv.Itoa(burst))
	h.Set("RateLimit-Remaining", strconv.Itoa(left))
	h.Set("RateLimit-Reset", strconv.Itoa(full))
	if allowed {
		return nil
	}
	wait := max(1, seconds(1-tokens))
	h.Set(fiber.HeaderRetryAfter, strconv.Itoa(wait))
	return refuse(http.StatusTooManyRequests, "rate_limited",
		"the tenant has sent more than %g requests a second; try again in %d s", limit.PerSecond, wait)
}
