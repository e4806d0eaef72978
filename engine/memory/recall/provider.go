package recall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Embedder makes vectors of texts.
type Embedder interface {
	// Embed makes one vector for each text, in their order, by one call. Its error is a *ProviderError.
	Embed(ctx context.Context, r EmbedRequest) (Embedded, error)
}

// EmbedRequest asks for vectors. Dimensions 0 leaves their number to the model.
type EmbedRequest struct {
	Model      string
	Dimensions int
	Texts      []string
}

// Embedded are the vectors of a request, and the tokens that the provider says it used.
type Embedded struct {
	Vectors [][]float32
	Tokens  int
}

// ProviderError is why there are no vectors. Its words are safe to show.
type ProviderError struct {
	Code       string // one of summary.ProviderError
	Detail     string
	RetryAfter time.Duration // 0: not said
	Texts      bool          // a text of the request may be why it was refused
}

func (e *ProviderError) Error() string { return e.Code + ": " + e.Detail }

// ofTexts tells whether the texts of a request may be why there are no vectors.
func (e *ProviderError) ofTexts() bool { return e.Texts || e.Code == "bad_reply" }

// After the first failure nobody asks for retryFirst, and twice as long after each further one, up to retryMost.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// backoff is how long nobody asks after so many failures.
func backoff(failures int, asked time.Duration) time.Duration {
	wait := time.Duration(math.Ldexp(float64(retryFirst), min(failures-1, 20)))
	return max(min(wait, retryMost), asked)
}

// health remembers who of those that calls depend on failed: the provider, a model of it, the queries of a project.
// Whoever failed is asked again after a while, by one call at a time, and until that is answered no other call is made.
// All of it can be lost: the next failure tells it again.
type health struct {
	mu     sync.Mutex
	failed map[part]*failure
}

// part is something that calls depend on. The zero part is the provider as a whole.
type part struct {
	model   string
	queries string // of a project, by its incarnation: they fail by a time of its own
}

// failure is a part that failed.
type failure struct {
	*ProviderError
	times  int
	until  time.Time
	trying bool
}

// maxFailures is from how many failed parts on those are forgotten whose time is over.
const maxFailures = 1000

// attempt is a call that depends on some parts, and tries those of them that failed before.
type attempt struct {
	parts []part
	tries map[part]bool
}

// begin begins a call. Where a part failed, and it is too early to try it or another call does, failed says how it did,
// and again when to ask next.
func (h *health) begin(now time.Time, parts ...part) (a *attempt, failed *ProviderError, again time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range parts {
		if f := h.failed[p]; f != nil && f.trying {
			return nil, f.ProviderError, now.Add(retryFirst)
		} else if f != nil && now.Before(f.until) {
			return nil, f.ProviderError, f.until
		}
	}
	a = &attempt{parts, map[part]bool{}}
	for _, p := range parts {
		if f := h.failed[p]; f != nil {
			f.trying, a.tries[p] = true, true
		}
	}
	return a, nil, now
}

// end ends a call. Those of its parts that are to blame have failed; where none is, all of them are well. A failure of
// a call that began before the part was known to fail says nothing new.
func (h *health) end(now time.Time, a *attempt, failed *ProviderError, blamed ...part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range a.parts {
		if len(blamed) == 0 {
			delete(h.failed, p)
		} else if a.tries[p] {
			h.failed[p].trying = false
		}
	}
	for _, p := range blamed {
		f := h.failed[p]
		if f != nil && !a.tries[p] {
			continue
		}
		if f == nil {
			f = &failure{}
			h.failed[p] = f
		}
		f.times++
		f.ProviderError, f.until = failed, now.Add(backoff(f.times, failed.RetryAfter))
	}
	if len(h.failed) > maxFailures {
		for p, f := range h.failed {
			if !f.trying && f.until.Before(now) {
				delete(h.failed, p)
			}
		}
	}
}

// leave ends a call that nobody waits for any more, which says nothing of its parts.
func (h *health) leave(a *attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range a.tries {
		if f := h.failed[p]; f != nil {
			f.trying = false
		}
	}
}

// call is one call of the provider: for a query where query says of which project, and else for documents.
type call struct {
	set    *project.Settings
	query  string
	within time.Duration
	texts  []string
}

// embed makes a call, unless what it depends on failed a short while ago: then called is false, and again says when to
// ask next. An error is that of ctx.
func (svc *Service) embed(ctx context.Context, c *call) (got Embedded, failed *ProviderError, called bool,
	again time.Time, err error) {
	health, model := &svc.embedding.health, part{model: c.set.EmbeddingModel}
	parts := []part{{}, model}
	if c.query != "" {
		parts = append(parts, part{queries: c.query})
	}
	a, failed, again := health.begin(svc.db.Now(), parts...)
	if failed != nil {
		return got, failed, false, again, nil
	}
	got, failed = svc.request(ctx, c)
	if failed != nil && ctx.Err() != nil {
		health.leave(a)
		return got, failed, true, again, ctx.Err()
	}
	health.end(svc.db.Now(), a, failed, c.blamed(failed)...)
	return got, failed, true, again, nil
}

// blamed are the parts that a failure says something of: none where the texts may be why.
func (c *call) blamed(failed *ProviderError) []part {
	if failed == nil || failed.ofTexts() {
		return nil
	}
	model := part{model: c.set.EmbeddingModel}
	switch failed.Code {
	case "provider_timeout":
		if c.query != "" { // Others may give the provider more time.
			return []part{{queries: c.query}}
		}
		return []part{{}, model}
	case "provider_unreachable":
		return []part{{}}
	}
	return []part{model}
}

// request makes the call of a provider, within its time.
func (svc *Service) request(ctx context.Context, c *call) (Embedded, *ProviderError) {
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	got, err := svc.embedding.embedder.Embed(ctx, EmbedRequest{Model: c.set.EmbeddingModel,
		Dimensions: c.set.EmbeddingDimensions, Texts: c.texts})
	if err != nil {
		failed, ok := errors.AsType[*ProviderError](err)
		if !ok {
			failed = &ProviderError{Code: "provider_error", Detail: "the call failed"}
		}
		return got, failed
	}
	if len(got.Vectors) != len(c.texts) {
		return got, &ProviderError{Code: "bad_reply",
			Detail: fmt.Sprintf("%d vectors came for %d texts", len(got.Vectors), len(c.texts))}
	}
	want := cmp.Or(c.set.EmbeddingDimensions, len(got.Vectors[0]))
	for _, v := range got.Vectors {
		if len(v) != want {
			return got, &ProviderError{Code: "bad_reply",
				Detail: fmt.Sprintf("a vector has %d dimensions where %d were wanted", len(v), want)}
		}
	}
	return got, nil
}
