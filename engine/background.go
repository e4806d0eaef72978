package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// background is what Step remembers between calls. All of it can be lost: a look at all tenants finds what there is.
type background struct {
	mu     sync.Mutex
	queue  []string        // tenants that this process queued work for, each once
	queued map[string]bool // what queue holds
	turn   atomic.Uint32   // of the kinds of a tenant's work
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
	e.poke(tenant)
}

// poke tells whoever drives Step that a tenant has work.
func (e *Engine) poke(tenant string) {
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
// however many tenants there are. A tenant of whose units none is done waits for the next
// look.
func (e *Engine) stepQueued(ctx context.Context) (more bool, err error) {
	tenant, ok := e.background.next()
	if !ok {
		return false, nil
	}
	done, err := e.stepTenant(ctx, tenant)
	if done {
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
		if failed = err; done {
			return true, failed
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
			if failed = errors.Join(failed, err); done {
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

// unit is one kind of background work: the records that say that there is some, and what does a piece of it.
type unit struct {
	due store.Range
	do  func(found []store.Item) (done bool, err error)
}

// units are the kinds of work of a tenant.
func (e *Engine) units(ctx context.Context, tenant string) []unit {
	first := func(job byte, do func(context.Context, string, store.Item) error) unit {
		jobs := prefixRange(sweepPrefix(job))
		jobs.Limit = 1
		return unit{jobs, func(found []store.Item) (bool, error) { return true, do(ctx, tenant, found[0]) }}
	}
	some := func(job byte, step func(context.Context, string) (bool, error)) unit {
		jobs := prefixRange(sweepPrefix(job))
		jobs.Limit = 1
		return unit{jobs, func([]store.Item) (bool, error) { return step(ctx, tenant) }}
	}
	now := e.now()
	return []unit{
		{e.summaries.summaryJobs(tenant), func(found []store.Item) (bool, error) { return e.queueSummaries(tenant, found), nil }},
		{expiredRange(now, sweepChunk/2), func(found []store.Item) (bool, error) { return true, e.expire(ctx, tenant, found) }},
		{dueImports(now, sweepChunk/2), func(found []store.Item) (bool, error) {
			return true, e.sweepImports(ctx, tenant, found)
		}},
		first(sweepSession, e.sweepSession),
		first(sweepProject, e.sweepProject),
		first(sweepDecisions, e.sweepDecisions),
		first(sweepPrefixed, e.sweepPrefixed),
		first(sweepHeadless, e.sweepHeadless),
		first(sweepTenant, e.sweepTenant), // in the system space only
		{dueBoard(now), func(found []store.Item) (bool, error) { return true, e.expireBoard(ctx, tenant, found[0].Key) }},
		some(jobBacklog, e.stepTranscripts),
		some(jobUnindexed, e.stepTranscripts),
		some(jobFold, e.stepFold),
	}
}

// stepTenant does one piece of one tenant's work: the first that does not fail. The error is of those that did.
func (e *Engine) stepTenant(ctx context.Context, tenant string) (done bool, err error) {
	units := e.units(ctx, tenant)
	q := store.Query{Keys: [][]byte{retentionKey}}
	for _, u := range units {
		q.Ranges = append(q.Ranges, u.due)
	}
	r, err := e.store.Read(ctx, tenant, q)
	if err != nil {
		return false, err
	}
	var failed error                       // one unit's trouble is no other's
	first := int(e.background.turn.Add(1)) // each kind's turn comes, however much there is of another
	for n := range units {
		i := (first + n) % len(units)
		if len(r.Ranges[i]) == 0 {
			continue
		}
		done, err := units[i].do(r.Ranges[i])
		if err == nil && done || ctx.Err() != nil {
			return done && err == nil, errors.Join(failed, err)
		}
		failed = errors.Join(failed, err)
	}
	done, err = e.stepRetention(ctx, tenant, r.Keys[0])
	return done && err == nil, errors.Join(failed, err)
}

// sweepImports turns imports that ran out into sweeps of what they wrote.
func (e *Engine) sweepImports(ctx context.Context, tenant string, due []store.Item) error {
	var b store.Batch
	for _, it := range due {
		b.Delete = append(b.Delete, it.Key)
		written := incarnation(it.Key[len(it.Key)-8:])
		if string(it.Value) == stagedBoard {
			b.Put = append(b.Put, store.Pair{Key: sweepKey(sweepPrefixed, boardPrefix(written)), Value: []byte{0}})
		} else {
			b.Put = append(b.Put, store.Pair{Key: sweepKey(sweepSession, written[:]), Value: it.Value})
		}
	}
	return e.commit(ctx, tenant, b)
}

// expire removes what the expiry index says is due: single records together, memories each with all that is theirs.
func (e *Engine) expire(ctx context.Context, tenant string, due []store.Item) error {
	var b store.Batch
	var failed error // one memory's trouble is no other's
	for _, it := range due {
		key := splitExpiry(it.Key)
		if _, _, ok := splitMemoryKey(key); ok {
			failed = errors.Join(failed, e.expireMemory(ctx, tenant, it.Key))
		} else {
			b.Delete = append(b.Delete, it.Key, key)
			if !it.Damaged { // else another process removed it, and what the key holds now is new
				b.Expect = append(b.Expect, store.Expect{Key: it.Key, Value: it.Value})
			}
		}
	}
	if e.removed.main.Store(true); len(b.Delete) > 0 {
		failed = errors.Join(failed, lostRace(e.commit(ctx, tenant, b)))
	}
	return failed
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
