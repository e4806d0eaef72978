package engine

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// expireMemory removes a memory that is past its time, whole and in one commit, with the entry that brought it up.
func (e *Engine) expireMemory(ctx context.Context, tenant string, due []byte) error {
	pinc, key, _ := splitMemoryKey(splitExpiry(due))
	p := &project{Incarnation: pinc}
	_, err := update(ctx, e, Caller{Tenant: tenant}, Once{}, func(t *tx) (struct{}, error) {
		rec, err := t.memory(p, key)
		if isDamagedMemory(err) {
			t.delete(due)
			return struct{}{}, t.deleteDamagedMemory(p, key)
		}
		if err != nil {
			return struct{}{}, err
		}
		if rec == nil || !rec.expired(t.now) {
			t.delete(due)
			return struct{}{}, nil
		}
		return struct{}{}, t.deleteMemory(p, rec)
	})
	return err
}

// sweepMemories removes a chunk of a deleted project's memories and tells whether there was any.
func (e *Engine) sweepMemories(ctx context.Context, tenant string, pinc incarnation) (more bool, err error) {
	rng := kindMemoryTime.Under(pinc)
	rng.Limit = sweepChunk / 4
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return false, err
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		b.Delete = append(b.Delete, it.Key)
		var entry memoryEntry
		if !it.Damaged && json.Unmarshal(it.Value, &entry) == nil && entry.Expires != 0 {
			_, key := splitMemoryTime(it.Key)
			b.Delete = append(b.Delete, kindExpiry.Key(timeOf(entry.Expires), kindMemory.Key(pinc, key)))
		}
	}
	if len(b.Delete) > 0 {
		return true, e.commit(ctx, tenant, b)
	}
	for _, rng := range []store.Range{kindMemory.Under(pinc), kindMemoryVersion.Under(pinc)} {
		if more, err := e.deleteRange(ctx, tenant, rng); more || err != nil {
			return more, err
		}
	}
	return false, nil
}
