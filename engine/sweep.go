package engine

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sweepSession removes a chunk of a deleted session, and its job with the last one.
func (e *Engine) sweepSession(ctx context.Context, tenant string, job store.Item) error {
	sinc, ok := kindSessionJob.Split(job.Key)
	if !ok {
		return errDamaged
	}
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
	pinc, ok := kindProjectJob.Split(job.Key)
	if !ok {
		return errDamaged
	}
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
			b.Put = append(b.Put, store.Pair{Key: kindSessionJob.Key(h.Incarnation), Value: pinc[:]})
		} else {
			damaged = true
		}
	}
	if damaged {
		b.Put = append(b.Put, store.Pair{Key: kindHeadlessJob.Key(pinc), Value: []byte{0}})
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
	tenant, ok := kindTenantJob.Split(job.Key)
	if !ok {
		return errDamaged
	}
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
