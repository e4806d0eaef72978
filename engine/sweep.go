package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sweepChunk is how many records one Step removes at most.
const sweepChunk = 1000

// sweepSession removes a chunk of a deleted session, and its job with the last one.
func (e *Engine) sweepSession(ctx context.Context, tenant string, job store.Item) error {
	prefix := len(sweepPrefix(sweepSession))
	if len(job.Key) != prefix+8 {
		return errDamaged
	}
	sinc := incarnation(job.Key[prefix:])
	if more, err := e.deleteRange(ctx, tenant, prefixRange(sessionPrefix(sinc))); more || err != nil {
		return err
	}
	// A damaged job would hold up all others for good: without it, decisions go when their retention ends.
	if len(job.Value) == 8 {
		pinc := incarnation(job.Value)
		if more, err := e.sweepTranscript(ctx, tenant, pinc, sinc); more || err != nil {
			return err
		}
		if err := e.purgeDecisions(ctx, tenant, pinc, sinc[:], e.now().AddDate(0, 0, 1)); err != nil {
			return err
		}
	}
	return e.commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key, summaryJobKey(sinc)}})
}

// sweepProject turns a deleted project's sessions into session sweeps, then removes its memories, its decisions and its
// job.
func (e *Engine) sweepProject(ctx context.Context, tenant string, job store.Item) error {
	prefix := len(sweepPrefix(sweepProject))
	if len(job.Key) != prefix+8 {
		return errDamaged
	}
	pinc := incarnation(job.Key[prefix:])
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
	damaged := false
	for _, it := range r.Ranges[0] {
		session := string(it.Key[len(headPrefix(pinc)) : len(it.Key)-1])
		b.Delete = append(b.Delete, it.Key, openCallsKey(pinc, session))
		var h head
		if !it.Damaged && json.Unmarshal(it.Value, &h) == nil {
			b.Put = append(b.Put, store.Pair{Key: sweepKey(sweepSession, h.Incarnation[:]), Value: pinc[:]})
		} else {
			damaged = true
		}
	}
	if damaged {
		b.Put = append(b.Put, store.Pair{Key: sweepKey(sweepHeadless, pinc[:]), Value: []byte{0}})
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
	return e.commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key}})
}

// sweepTenant removes a chunk of a deleted tenant's space, and at the end its record, which frees the id.
func (e *Engine) sweepTenant(ctx context.Context, _ string, job store.Item) error {
	tenant := string(job.Key[len(sweepPrefix(sweepTenant)):])
	synced := store.Range{To: []byte{store.Loose}}
	if more, err := e.deleteRange(ctx, tenant, synced); more || err != nil {
		return err
	}
	if more, err := e.deleteRange(ctx, tenant, store.Range{From: []byte{store.Loose}}); more || err != nil {
		return err
	}
	return e.commit(ctx, systemTenant, store.Batch{
		Delete: [][]byte{tenantKey(tenant), job.Key}})
}

// sweepDecisions empties the decisions of a project that were made up to the moment that its job names.
func (e *Engine) sweepDecisions(ctx context.Context, tenant string, job store.Item) error {
	prefix := len(sweepPrefix(sweepDecisions))
	if job.Damaged || len(job.Key) != prefix+8 || len(job.Value) != 8 {
		return errDamaged
	}
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(job.Value)))
	if err := e.purgeDecisions(ctx, tenant, incarnation(job.Key[prefix:]), nil, until); err != nil {
		return err
	}
	return e.commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key}})
}

// purgeDecisions empties a project's decisions made up to a moment, those of one session or, with none, of all, over
// the days that any can lie in.
func (e *Engine) purgeDecisions(ctx context.Context, tenant string, pinc incarnation, session []byte,
	until time.Time) error {
	oldest, err := e.firstKey(ctx, tenant, prefixRange(decisionPrefix(pinc)))
	if err != nil || oldest == nil {
		return err
	}
	for d := decisionDay(oldest.Key); d <= day(until)+1; d++ {
		rng := prefixRange(append(decisionDayPrefix(pinc, d), session...))
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
			if err := e.emptyDecisions(ctx, tenant, found, until); err != nil {
				return err
			}
			rng.From = append(found[len(found)-1].Key, 0)
		}
	}
	return nil
}

// emptyDecisions leaves of decisions made up to a moment only that they are purged.
func (e *Engine) emptyDecisions(ctx context.Context, tenant string, found []store.Item, until time.Time) error {
	var b store.Batch
	for _, it := range found {
		if !decisionMade(it.Key).After(until) {
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: []byte(purged)})
		}
	}
	if len(b.Put) == 0 {
		return nil
	}
	e.removed.loose.Store(true)
	return e.commit(ctx, tenant, b)
}

// deleteRange removes up to sweepChunk records of a range and tells whether it removed any.
func (e *Engine) deleteRange(ctx context.Context, tenant string, rng store.Range) (more bool, err error) {
	n, err := e.deleteSome(ctx, tenant, rng)
	return n > 0, err
}

// deleteSome removes up to sweepChunk records of a range and says how many.
func (e *Engine) deleteSome(ctx context.Context, tenant string, rng store.Range) (n int, err error) {
	rng.Limit, rng.KeysOnly = sweepChunk, true
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return 0, err
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		b.Delete = append(b.Delete, it.Key)
	}
	e.removed.of(b.IsLoose()).Store(true)
	return len(b.Delete), e.commit(ctx, tenant, b)
}

func (e *Engine) firstKey(ctx context.Context, tenant string, rng store.Range) (*store.Item, error) {
	rng.Limit, rng.KeysOnly = 1, true
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return nil, err
	}
	return &r.Ranges[0][0], nil
}
