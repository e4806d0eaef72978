package policy

import (
	"context"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// breakAfter is the number of failures in a row after which a live version is rolled back. If that is impossible, it is
// tried again after as many further failures.
const breakAfter = 5

// maxStreaks is the maximum number of failing versions to remember.
const maxStreaks = 10_000

// versionID identifies a version of a tenant's policy, and the hook at which it runs. A number would not do, because numbers begin again after a
// policy was deleted.
type versionID struct {
	tenant, name string
	digest       plan.Digest
	hook         plan.Hook
}

// breaker counts failures in a row, in this process only. The zero value is ready to use.
type breaker struct {
	mu      sync.Mutex
	streaks map[versionID]int
}

// note counts the result of a call, and returns the number of failures in a row.
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

// forget forgets the failures of a version at all hooks.
func (b *breaker) forget(tenant, name string, digest plan.Digest) {
	for _, h := range plan.Hooks() {
		b.note(versionID{tenant, name, digest, h}, false)
	}
}

// failures returns the most failures in a row of a version at one hook.
func (b *breaker) failures(tenant, name string, digest plan.Digest) (most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range plan.Hooks() {
		most = max(most, b.streaks[versionID{tenant, name, digest, h}])
	}
	return most
}

// Verdict is the outcome of a step of a pipeline.
type Verdict struct {
	Status plan.Status
	Detail string
}

// telling reports whether the verdict counts for the circuit breaker. A step that never ran does not. A timeout counts
// as a failure: the time spent waiting for a processor is not measured, and a call that takes too long although it has
// fuel left delays others.
func (v Verdict) telling() bool { return v.Status != "" && v.Status != plan.StatusUnavailable }

// Judge counts the outcomes of a pipeline's steps, and rolls back live versions of the tenant's own policies that
// failed too often. verdicts are in the order of the steps.
func (svc *Service) Judge(ctx context.Context, tenant string, steps []Step, verdicts []Verdict) {
	for i, v := range verdicts {
		s := &steps[i]
		if !s.Own || s.pinned || s.Guard || !v.telling() { // A guard is never set back.
			continue
		}
		n := svc.breaker.note(versionID{tenant, s.Policy, s.Digest, s.hook}, v.Status != plan.StatusOK)
		if n > 0 && n%breakAfter == 0 {
			svc.setBack(context.WithoutCancel(ctx), tenant, s, v, n)
		}
	}
}

// setBack replaces a failing live version by the newest earlier live version that accepts the configs in the projects'
// pipelines. It does nothing if the failing version is no longer live.
func (svc *Service) setBack(ctx context.Context, tenantID string, s *Step, v Verdict, failures int) {
	nobody := ident.Caller{Tenant: tenantID}
	to, err := records.Update(ctx, svc.db, nobody, ident.Once{}, func(t *records.Tx) (int, error) {
		rec, err := readTx(t, s.Policy)
		if err != nil || rec == nil || rec.Live != s.Version || len(rec.Before) == 0 {
			return 0, err
		}
		failing := rec.version(s.Version)
		if plan.Digest(failing.Digest) != s.Digest {
			return 0, nil
		}
		for {
			if len(rec.Before) == 0 {
				return 0, nil
			}
			rec.Live, rec.Before = rec.Before[len(rec.Before)-1], rec.Before[:len(rec.Before)-1]
			earlier := rec.version(rec.Live)
			if earlier != nil && svc.fits(t, s.Policy, earlier) == nil {
				break
			}
		}
		failing.SetBack = &SetBack{At: t.Now, To: rec.Live, Failures: failures, Outcome: v.Status, Detail: v.Detail}
		err = tenant.Audit(t, ident.Caller{}, "policy.set_back", VersionName(s.Policy, s.Version),
			string(v.Status)+": "+v.Detail)
		if err != nil {
			return 0, err
		}
		return rec.Live, t.PutJSON(records.Policy.Key(s.Policy), rec)
	})
	attrs := []any{"tenant", tenantID, "policy", s.Policy, "version", s.Version, "failures", failures,
		"outcome", v.Status, "detail", v.Detail}
	switch {
	case err != nil:
		svc.db.Log.Error("a failing policy could not be set back", append(attrs, "error", err)...)
	case to == 0:
		svc.db.Log.Warn("a policy keeps failing and no earlier version can take its place", attrs...)
	default:
		svc.db.Log.Warn("a failing policy was set back", append(attrs, "to", to)...)
	}
}
