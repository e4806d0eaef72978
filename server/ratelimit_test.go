package server

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// Each tenant has its own bucket; responses describe its state, and a refused request says when to retry.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	advance := func(d time.Duration) { mu.Lock(); now = now.Add(d); mu.Unlock() }
	s := start(t)
	s.s.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	s.s.rates.limit = RateLimit{PerSecond: 0.5, Burst: 3}
	ask := func(key string) answer {
		return s.do("GET", "/api/v1/projects", "", "Authorization", "Bearer "+key)
	}
	want := func(a answer, status int, headers map[string]string) {
		t.Helper()
		if a.status != status {
			t.Fatalf("status %d, want %d", a.status, status)
		}
		for name, value := range headers {
			if got := a.header.Get(name); got != value {
				t.Errorf("%s: %q, want %q", name, got, value)
			}
		}
	}
	for n := range 3 {
		want(ask([]string{"reader", "tenant_admin"}[n%2]), 200, map[string]string{ // any key of the tenant
			"RateLimit-Policy": `"tenant";q=3;w=6`, "RateLimit": fmt.Sprintf(`"tenant";r=%d;t=%d`, 2-n, 2*(n+1)),
			"RateLimit-Limit": "3", "RateLimit-Remaining": fmt.Sprint(2 - n),
			"RateLimit-Reset": fmt.Sprint(2 * (n + 1)),
			"Retry-After":     ""})
	}
	refused := ask("reader")
	want(refused, 429, map[string]string{"Retry-After": "2", "RateLimit": `"tenant";r=0;t=6`})
	if p := refused.problem(t); p.Code != "rate_limited" {
		t.Errorf("code %s", p.Code)
	}
	want(ask("reader/other"), 200, nil)
	want(ask("nobody"), 401, map[string]string{"RateLimit": ""})
	want(s.do("GET", "/healthz", ""), 200, map[string]string{"RateLimit": ""})
	for range 9 {
		want(s.do("GET", "/api/v1/projects?tenant=default", "", "Authorization", "Bearer root"), 200, nil)
	}
	advance(1999 * time.Millisecond)
	want(ask("reader"), 429, map[string]string{"Retry-After": "1"})
	advance(time.Millisecond)
	want(ask("reader"), 200, nil)
	want(ask("reader"), 429, nil)
}

// Idle tenants are forgotten, so that many of them cost bounded memory; active ones are not.
func TestRateLimitForgets(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	r := &rates{limit: RateLimit{PerSecond: 1, Burst: 2}}
	for i := range maxRates - 1 {
		r.of(fmt.Sprint(i), now)
	}
	busy := r.of("busy", now)
	busy.AllowN(now, 2)
	r.of("one more", now)
	if n := len(r.tenants); n != 2 || r.of("busy", now) != busy {
		t.Errorf("%d tenants are remembered", n)
	}
}
