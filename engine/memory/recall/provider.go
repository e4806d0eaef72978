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
	// Embed returns one vector for each text, in order, with one call. Its error is a *ProviderError.
	Embed(ctx context.Context, r EmbedRequest) (Embedded, error)
}

// EmbedRequest is a request for vectors. If Dimensions is 0, the model chooses their number.
type EmbedRequest struct {
	Model      string
	Dimensions int
	Texts      []string
}

// Embedded are the vectors of a request, and the number of tokens that the provider reports.
type Embedded struct {
	Vectors [][]float32
	Tokens  int
}

// ProviderError says why there are no vectors. Its text is safe to show.
type ProviderError struct {
	Code       string // one of summary.ProviderError
	Detail     string
	RetryAfter time.Duration // 0 if the provider did not say
	Texts      bool          // a text of the request may have caused the refusal
}

func (e *ProviderError) Error() string { return e.Code + ": " + e.Detail }

// ofTexts reports whether the texts of a request may have caused the failure.
func (e *ProviderError) ofTexts() bool { return e.Texts || e.Code == "bad_reply" }

// After the first failure there are no calls for retryFirst, and for twice as long after each further one, up to
// retryMost.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// backoff returns how long there are no calls after so many failures.
func backoff(failures int, asked time.Duration) time.Duration {
	wait := time.Duration(math.Ldexp(float64(retryFirst), min(failures-1, 20)))
	return max(min(wait, retryMost), asked)
}

// health records failures of what calls depend on: the provider, one of its models, the queries of a project. A part
// that failed is tried again after a while, by one call at a time, and until that succeeds no other call is made. All
// of it may be lost: the next failure restores it.
type health struct {
	mu     sync.Mutex
	failed map[part]*failure
}

// part is something that calls depend on. The zero part is the provider as a whole.
type part struct {
	model   string
	queries string // incarnation of a project, whose queries fail by its own time limit
}

// failure is a part that failed.
type failure struct {
	*ProviderError
	times  int
	until  time.Time
	trying bool
}

// maxFailures is the number of failed parts above which those whose time is over are removed.
const maxFailures = 1000

// attempt is a call that depends on some parts, and tries those of them that failed before.
type attempt struct {
	parts []part
	tries map[part]bool
}

// begin begins a call. If a part failed, and it is too early to try it or another call is trying it, failed says how it
// failed, and again when to try next.
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

// end ends a call. It marks the blamed parts of the call as failed, or all its parts as healthy if none is blamed. If
// the call began before a part was known to fail, its failure adds nothing.
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

// leave ends a call that was cancelled, which says nothing about its parts.
func (h *health) leave(a *attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range a.tries {
		if f := h.failed[p]; f != nil {
			f.trying = false
		}
	}
}

// call is one call of the provider: for a query of the project in query, or for documents if that is empty.
type call struct {
	set    *project.Settings
	query  string
	within time.Duration
	texts  []string
}

// embed makes a call, unless something that it depends on failed recently: then called is false, and again says when to
// try next. An error is that of ctx.
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

// blamed returns the parts that a failure says something about: none if the texts may have caused it.
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

// request calls the provider, within the call's time limit.
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
