package engine

import (
	"context"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// breakAfter is how many failures in a row set a live version back.
const breakAfter = 5

// maxStreaks bounds what is remembered of failing versions.
const maxStreaks = 10_000

// versionID names a version of a tenant's policy for good: numbers begin again where a policy was deleted.
type versionID struct {
	tenant, name string
	digest       plan.Digest
}

// breaker counts failures in a row, in this process alone. The zero value is ready.
type breaker struct {
	mu      sync.Mutex
	streaks map[versionID]int
}

// note counts a call that ended and tells how many have failed in a row.
func (b *breaker) note(v versionID, failed bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !failed {
		delete(b.streaks, v)
		return 0
	}
	if b.streaks == nil || len(b.streaks) >= maxStreaks {
		b.streaks = map[versionID]int{}
	}
	b.streaks[v]++
	return b.streaks[v]
}

func (b *breaker) forget(v versionID) { b.note(v, false) }

func (b *breaker) failures(v versionID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.streaks[v]
}

// verdict is how a step of a pipeline ended.
type verdict struct {
	status plan.Status
	detail string
}

// telling says whether the end says anything of the policy. A step that never ran says nothing. Neither does a timeout,
// because a busy machine may cause it: a policy that is really slow runs out of fuel on an idle machine, so fuel
// catches it.
func (v verdict) telling() bool {
	return v.status != "" && v.status != plan.StatusUnavailable && v.status != plan.StatusTimeout
}

// judge tells the breaker how the steps of a pipeline ended, and sets back live versions that failed too often.
func (e *Engine) judge(ctx context.Context, tenant string, steps []step, verdicts []verdict) {
	for i, v := range verdicts {
		s := &steps[i]
		if !s.own || s.pinned || !v.telling() {
			continue
		}
		if n := e.breaker.note(versionID{tenant, s.Policy, s.Digest}, v.status != plan.StatusOK); n > 0 && n%breakAfter == 0 {
			e.setBack(context.WithoutCancel(ctx), tenant, s, v, n)
		}
	}
}

// setBack lets the version that was live before take a failing one's place, unless somebody else was faster.
func (e *Engine) setBack(ctx context.Context, tenant string, s *step, v verdict, failures int) {
	to, err := update(ctx, e, Caller{Tenant: tenant}, Once{}, func(t *tx) (int, error) {
		rec, err := t.policy(s.Policy)
		if err != nil || rec == nil || rec.Live != s.Version || len(rec.Before) == 0 {
			return 0, err
		}
		failing := rec.version(s.Version)
		if plan.Digest(failing.Digest) != s.Digest {
			return 0, nil
		}
		// The newest version before it that takes what the projects' pipelines give it.
		for {
			if len(rec.Before) == 0 {
				return 0, nil
			}
			rec.Live, rec.Before = rec.Before[len(rec.Before)-1], rec.Before[:len(rec.Before)-1]
			earlier := rec.version(rec.Live)
			if earlier != nil && t.fits(s.Policy, earlier) == nil {
				break
			}
		}
		failing.SetBack = &SetBack{At: t.now, To: rec.Live, Failures: failures, Outcome: v.status, Detail: v.detail}
		why := string(v.status) + ": " + v.detail
		if err := t.audit(Caller{}, "policy.set_back", versionName(s.Policy, s.Version), why); err != nil {
			return 0, err
		}
		return rec.Live, t.putJSON(kindPolicy.Key(s.Policy), rec)
	})
	attrs := []any{"tenant", tenant, "policy", s.Policy, "version", s.Version, "failures", failures,
		"outcome", v.status, "detail", v.detail}
	switch {
	case err != nil:
		e.log.Error("a failing policy could not be set back", append(attrs, "error", err)...)
	case to == 0:
		e.log.Warn("a policy keeps failing and no earlier version can take its place", attrs...)
	default:
		e.log.Warn("a failing policy was set back", append(attrs, "to", to)...)
	}
}
