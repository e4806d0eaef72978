package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sweepChunk is how many records one Step removes at most.
const sweepChunk = 1000

// poke tells whoever drives Step that there is work.
func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Step does one unit of background work, if there is any, and tells whether there may be more. Work is records in
// the store: a unit that was interrupted is found and done again.
func (e *Engine) Step(ctx context.Context) (more bool, err error) {
	deleted, err := e.firstKey(ctx, systemTenant, prefixRange(sweepPrefix(sweepTenant)))
	if err != nil {
		return false, err
	}
	if deleted != nil {
		return true, e.sweepTenant(ctx, string(deleted.Key[len(sweepPrefix(sweepTenant)):]))
	}
	if done, err := e.stepTenant(ctx, systemTenant); done || err != nil {
		return done, err
	}
	var failed error // one tenant's trouble is no other's
	after := tenantKey("")[:2]
	for {
		rng := store.Range{From: append(after, 0), To: prefixEnd(tenantKey("")[:2]), Limit: 256}
		r, err := e.store.Read(ctx, systemTenant, store.Query{Ranges: []store.Range{rng}})
		if err != nil {
			return false, err
		}
		for _, it := range r.Ranges[0] {
			var rec tenantRecord
			after = it.Key
			err := errDamaged
			if !it.Damaged {
				err = json.Unmarshal(it.Value, &rec)
			}
			done := false
			if err == nil && !rec.Deleting {
				done, err = e.stepTenant(ctx, rec.ID)
			}
			if failed = errors.Join(failed, err); done && err == nil {
				return true, failed
			}
		}
		if len(r.Ranges[0]) < rng.Limit {
			return false, failed
		}
	}
}

// stepTenant does one unit of one tenant's work.
func (e *Engine) stepTenant(ctx context.Context, tenant string) (done bool, err error) {
	now := e.now()
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{
		expiredRange(now, sweepChunk/2),
		{From: sweepPrefix(sweepSession), To: prefixEnd(sweepPrefix(sweepSession)), Limit: 1},
		{From: sweepPrefix(sweepProject), To: prefixEnd(sweepPrefix(sweepProject)), Limit: 1},
		dueImports(now, sweepChunk/2),
	}})
	if err != nil {
		return false, err
	}
	switch expired, sessions, projects, imports := r.Ranges[0], r.Ranges[1], r.Ranges[2], r.Ranges[3]; {
	case len(expired) > 0:
		return true, e.expire(ctx, tenant, expired)
	case len(imports) > 0:
		var b store.Batch
		for _, it := range imports {
			b.Delete = append(b.Delete, it.Key)
			b.Put = append(b.Put, store.Pair{Key: sweepKey(sweepSession, it.Key[len(it.Key)-8:]), Value: it.Value})
		}
		return true, e.commit(ctx, tenant, b)
	case len(sessions) > 0:
		return true, e.sweepSession(ctx, tenant, sessions[0])
	case len(projects) > 0:
		return true, e.sweepProject(ctx, tenant, projects[0].Key)
	}
	if done, err := e.stepTranscripts(ctx, tenant); done || err != nil {
		return done, err
	}
	if done, err := e.stepFold(ctx, tenant); done || err != nil {
		return done, err
	}
	return e.expireDecisions(ctx, tenant)
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
		}
	}
	if len(b.Delete) > 0 {
		failed = errors.Join(failed, e.commit(ctx, tenant, b))
	}
	return failed
}

// sweepSession removes a chunk of a deleted session, and its job with the last one.
func (e *Engine) sweepSession(ctx context.Context, tenant string, job store.Item) error {
	prefix := len(sweepPrefix(sweepSession))
	if job.Damaged || len(job.Key) != prefix+8 || len(job.Value) != 8 {
		return errDamaged
	}
	sinc, pinc := incarnation(job.Key[prefix:]), incarnation(job.Value)
	if more, err := e.deleteRange(ctx, tenant, prefixRange(sessionPrefix(sinc))); more || err != nil {
		return err
	}
	if more, err := e.sweepTranscript(ctx, tenant, pinc, sinc); more || err != nil {
		return err
	}
	if err := e.purgeDecisions(ctx, tenant, pinc, sinc); err != nil {
		return err
	}
	return e.commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key}})
}

// sweepProject turns a deleted project's sessions into session sweeps, then removes its memories, its decisions and its
// job.
func (e *Engine) sweepProject(ctx context.Context, tenant string, job []byte) error {
	prefix := len(sweepPrefix(sweepProject))
	if len(job) != prefix+8 {
		return errDamaged
	}
	pinc := incarnation(job[prefix:])
	// Before the sessions, which would else take their documents out one by one, and again when nothing can come any more.
	if more, err := e.sweepRecall(ctx, tenant, pinc); more || err != nil {
		return err
	}
	rng := prefixRange(headPrefix(pinc))
	rng.Limit = sweepChunk / 4
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return err
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		session := string(it.Key[len(headPrefix(pinc)) : len(it.Key)-1])
		b.Delete = append(b.Delete, it.Key, openCallsKey(pinc, session))
		var h head
		if !it.Damaged && json.Unmarshal(it.Value, &h) == nil {
			b.Put = append(b.Put, store.Pair{Key: sweepKey(sweepSession, h.Incarnation[:]), Value: pinc[:]})
		}
	}
	if len(b.Delete) > 0 {
		return e.commit(ctx, tenant, b)
	}
	if more, err := e.sweepMemories(ctx, tenant, pinc); more || err != nil {
		return err
	}
	for _, prefix := range [][]byte{decisionPrefix(pinc), effectivePrefix(pinc)} {
		if more, err := e.deleteRange(ctx, tenant, prefixRange(prefix)); more || err != nil {
			return err
		}
	}
	return e.commit(ctx, tenant, store.Batch{Delete: [][]byte{job}})
}

// sweepTenant removes a chunk of a deleted tenant's space, and at the end its record, which frees the id.
func (e *Engine) sweepTenant(ctx context.Context, tenant string) error {
	synced := store.Range{To: []byte{store.Loose}}
	if more, err := e.deleteRange(ctx, tenant, synced); more || err != nil {
		return err
	}
	if more, err := e.deleteRange(ctx, tenant, store.Range{From: []byte{store.Loose}}); more || err != nil {
		return err
	}
	return e.commit(ctx, systemTenant, store.Batch{
		Delete: [][]byte{tenantKey(tenant), sweepKey(sweepTenant, []byte(tenant))}})
}

// expireDecisions removes a chunk of decisions that are past their project's retention.
func (e *Engine) expireDecisions(ctx context.Context, tenant string) (done bool, err error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{prefixRange(projectKey("")[:2])}})
	if err != nil {
		return false, err
	}
	living := map[incarnation]bool{}
	for _, it := range r.Ranges[0] {
		if it.Damaged {
			return false, errDamaged
		}
		var p project
		if err := json.Unmarshal(it.Value, &p); err != nil {
			return false, err
		}
		living[p.Incarnation] = true
		s, err := e.settings(p.Set)
		if err != nil {
			return false, err
		}
		oldest := e.now().AddDate(0, 0, -s.DecisionRetentionDays)
		for _, rng := range []store.Range{
			{From: decisionPrefix(p.Incarnation), To: decisionDayPrefix(p.Incarnation, day(oldest))},
			{From: effectivePrefix(p.Incarnation), To: effectiveKey(p.Incarnation, day(oldest), [16]byte{})},
		} {
			if more, err := e.deleteRange(ctx, tenant, rng); more || err != nil {
				return more, err
			}
		}
	}
	return e.sweepOrphans(ctx, tenant, living)
}

// sweepOrphans removes a chunk of decisions of projects that are no more: a window may have been answered while its
// project was being deleted.
func (e *Engine) sweepOrphans(ctx context.Context, tenant string, living map[incarnation]bool) (done bool, err error) {
	for _, kind := range []byte{'d', 'e'} {
		all := prefixRange([]byte{store.Loose, kind})
		for {
			first, err := e.firstKey(ctx, tenant, all)
			if err != nil {
				return false, err
			}
			if first == nil {
				break
			}
			of := prefixRange(first.Key[:2+8])
			if !living[incarnation(first.Key[2:2+8])] {
				return e.deleteRange(ctx, tenant, of)
			}
			all.From = of.To
		}
	}
	return false, nil
}

// purgeDecisions empties a deleted session's decisions, over the days that any can lie in.
func (e *Engine) purgeDecisions(ctx context.Context, tenant string, pinc, sinc incarnation) error {
	oldest, err := e.firstKey(ctx, tenant, prefixRange(decisionPrefix(pinc)))
	if err != nil || oldest == nil {
		return err
	}
	for d := decisionDay(oldest.Key); d <= day(e.now())+1; d++ {
		rng := prefixRange(append(decisionDayPrefix(pinc, d), sinc[:]...))
		rng.Limit, rng.KeysOnly = sweepChunk, true
		for {
			r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
			if err != nil {
				return err
			}
			found := r.Ranges[0]
			if len(found) == 0 {
				break
			}
			var b store.Batch
			for _, it := range found {
				if decisionPart(it.Key) == 0 {
					b.Put = append(b.Put, store.Pair{Key: it.Key, Value: []byte(purged)})
				} else {
					b.Delete = append(b.Delete, it.Key)
				}
			}
			if err := e.commit(ctx, tenant, b); err != nil {
				return err
			}
			rng.From = append(found[len(found)-1].Key, 0)
		}
	}
	return nil
}

// deleteRange removes up to sweepChunk records of a range and tells whether it removed any.
func (e *Engine) deleteRange(ctx context.Context, tenant string, rng store.Range) (more bool, err error) {
	rng.Limit, rng.KeysOnly = sweepChunk, true
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return false, err
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		b.Delete = append(b.Delete, it.Key)
	}
	return true, e.commit(ctx, tenant, b)
}

func (e *Engine) firstKey(ctx context.Context, tenant string, rng store.Range) (*store.Item, error) {
	rng.Limit, rng.KeysOnly = 1, true
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return nil, err
	}
	return &r.Ranges[0][0], nil
}

// Run drives Step until ctx ends: all there is to do when woken, and a look every so often for what came due.
func (e *Engine) Run(ctx context.Context, tick <-chan struct{}) {
	for {
		for {
			more, err := e.Step(ctx)
			if err != nil && !errors.Is(err, context.Canceled) {
				e.log.Error("background step failed; it is tried again later", "error", err)
			}
			if !more || ctx.Err() != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-tick:
		}
	}
}
