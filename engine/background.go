package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// background is what Step remembers between calls. All of it can be lost: a look at all tenants finds what there is.
type background struct {
	mu     sync.Mutex
	queue  []string        // tenants that this process queued work for, each once
	queued map[string]bool // what queue holds
	place  []byte          // the tenant's key that a look has come to; nil: the next look is a new one
}

func (b *background) add(tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queued[tenant] {
		return
	}
	if b.queued == nil {
		b.queued = map[string]bool{}
	}
	b.queued[tenant] = true
	b.queue = append(b.queue, tenant)
}

func (b *background) next() (tenant string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return "", false
	}
	tenant, b.queue = b.queue[0], b.queue[1:]
	delete(b.queued, tenant)
	return tenant, true
}

func (b *background) lookedTo() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.place)
}

func (b *background) setPlace(key []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.place = slices.Clone(key)
}

// queueWork notes a tenant whose batch held a job, and tells whoever drives Step.
func (e *Engine) queueWork(tenant string, b store.Batch) {
	job := func(p store.Pair) bool {
		return bytes.HasPrefix(p.Key, sweepPrefix(0)[:2]) && p.Key[2] != jobSummary // its own queue holds that
	}
	if !slices.ContainsFunc(b.Put, job) {
		return
	}
	e.background.add(tenant)
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Step does one unit of background work, if there is any, and tells whether there may be more. Work is records in
// the store: a unit that was interrupted is found and done again. What this process queued comes first; then a look
// at all tenants finds what came due by time, and what other processes left.
func (e *Engine) Step(ctx context.Context) (more bool, err error) {
	if more, err := e.step(ctx); more || err != nil {
		return more, err
	}
	more, _, err = e.makeSummary(ctx)
	return more, err
}

// step is Step without calls to others' servers, which may take long.
func (e *Engine) step(ctx context.Context) (more bool, err error) {
	if more, err := e.stepQueued(ctx); more || err != nil {
		return more, err
	}
	return e.stepLook(ctx)
}

// stepQueued does a unit for one tenant that this process queued work for. It costs nothing where there is none,
// however many tenants there are. A tenant whose unit fails waits for the next look.
func (e *Engine) stepQueued(ctx context.Context) (more bool, err error) {
	tenant, ok := e.background.next()
	if !ok {
		return false, nil
	}
	done, err := e.stepTenant(ctx, tenant)
	if done && err == nil {
		e.background.add(tenant)
	}
	return true, err
}

// stepLook goes on with the look at all tenants until it has found a unit and done it, or has seen them all.
func (e *Engine) stepLook(ctx context.Context) (more bool, err error) {
	var failed error // one tenant's trouble is no other's
	from := e.background.lookedTo()
	if from == nil {
		done, err := e.stepTenant(ctx, systemTenant)
		if failed = err; done && err == nil {
			return true, nil
		}
		from = tenantKey("")[:2]
	}
	for {
		rng := store.Range{From: from, To: prefixEnd(tenantKey("")[:2]), Limit: 256}
		r, err := e.store.Read(ctx, systemTenant, store.Query{Ranges: []store.Range{rng}})
		if err != nil {
			return false, errors.Join(failed, err)
		}
		for _, it := range r.Ranges[0] {
			done, err := e.stepRecord(ctx, it)
			if failed = errors.Join(failed, err); done && err == nil {
				e.background.setPlace(it.Key)
				return true, failed
			}
			from = append(it.Key, 0)
		}
		if len(r.Ranges[0]) < rng.Limit {
			e.background.setPlace(nil)
			return false, failed
		}
	}
}

// stepRecord does a unit for the tenant that a record describes.
func (e *Engine) stepRecord(ctx context.Context, it store.Item) (done bool, err error) {
	if it.Damaged {
		return false, errDamaged
	}
	var rec tenantRecord
	if err := json.Unmarshal(it.Value, &rec); err != nil || rec.Deleting {
		return false, err
	}
	return e.stepTenant(ctx, rec.ID)
}

// stepTenant does one unit of one tenant's work.
func (e *Engine) stepTenant(ctx context.Context, tenant string) (done bool, err error) {
	now := e.now()
	first := func(kind byte) store.Range {
		return store.Range{From: sweepPrefix(kind), To: prefixEnd(sweepPrefix(kind)), Limit: 1}
	}
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{
		expiredRange(now, sweepChunk/2), dueImports(now, sweepChunk/2),
		first(sweepSession), first(sweepProject), first(sweepDecisions), first(sweepTenant),
		{From: sweepPrefix(jobSummary), To: prefixEnd(sweepPrefix(jobSummary)), Limit: 64},
	}})
	if err != nil {
		return false, err
	}
	for _, it := range r.Ranges[6] { // those that this process does not know yet: of a start before, or of others
		var job summaryJob
		if it.Damaged || json.Unmarshal(it.Value, &job) == nil {
			e.summaries.add(tenant, incarnation(it.Key[len(it.Key)-8:]), e.summaryDue(&job))
		}
	}
	switch found := r.Ranges; {
	case len(found[0]) > 0:
		var b store.Batch
		for _, it := range found[0] {
			b.Delete = append(b.Delete, it.Key, splitExpiry(it.Key))
		}
		return true, e.commit(ctx, tenant, b)
	case len(found[1]) > 0:
		var b store.Batch
		for _, it := range found[1] {
			b.Delete = append(b.Delete, it.Key)
			b.Put = append(b.Put, store.Pair{Key: sweepKey(sweepSession, it.Key[len(it.Key)-8:]), Value: it.Value})
		}
		return true, e.commit(ctx, tenant, b)
	case len(found[2]) > 0:
		return true, e.sweepSession(ctx, tenant, found[2][0])
	case len(found[3]) > 0:
		return true, e.sweepProject(ctx, tenant, found[3][0].Key)
	case len(found[4]) > 0:
		return true, e.sweepDecisions(ctx, tenant, found[4][0])
	case len(found[5]) > 0: // in the system space only
		return true, e.sweepTenant(ctx, string(found[5][0].Key[len(sweepPrefix(sweepTenant)):]))
	}
	return e.stepRetention(ctx, tenant)
}

// Run does background work until ctx ends: at once what an earlier process left, when woken what was queued, and every
// so often a look for what came due. Summaries are made beside it, several at once.
func (e *Engine) Run(ctx context.Context, tick <-chan struct{}) {
	var workers sync.WaitGroup
	defer workers.Wait()
	if e.summariser != nil {
		for range summaryWorkers {
			workers.Go(func() { e.runSummaries(ctx) })
		}
	}
	step := e.step
	for {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = step(ctx); err != nil && !errors.Is(err, context.Canceled) {
				e.log.Error("background step failed; it is tried again later", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
			step = e.stepQueued
		case <-tick:
			step = e.step
		}
	}
}
