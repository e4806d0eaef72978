package engine

import (
	"context"
	"encoding/json"
	"time"
)

// MemoryQuota bounds the memories of one tenant; 0 is no bound. Bytes counts content, what memories were before
// included.
type MemoryQuota struct {
	Count int
	Bytes int64
}

// How long a count of a tenant's memories holds, and how long it holds to refuse something.
const (
	memoryTallyLife    = time.Minute
	memoryTallyRefuses = time.Second
)

// openMemories makes ready what memories need.
func (e *Engine) openMemories(q MemoryQuota) { e.memoryUse, e.memoryQuota = e.newMemoryTallies(q), q }

// newMemoryTallies is nil where there is no quota: then nothing is counted.
func (e *Engine) newMemoryTallies(q MemoryQuota) *tallies {
	if q == (MemoryQuota{}) {
		return nil
	}
	return &tallies{count: e.countMemories, now: e.now, life: memoryTallyLife, refuses: memoryTallyRefuses}
}

// holdMemory reserves what putting rec in old's place adds; either may be nil.
func (e *Engine) holdMemory(ctx context.Context, use *reservation, old, rec *memoryRecord) error {
	var change amount
	if rec != nil {
		change.add(amount{1, rec.weight()})
	}
	if old != nil {
		change.subtract(amount{1, old.weight()})
	}
	return e.holdMemories(ctx, use, change)
}

// holdMemories reserves a change of a tenant's memories, where the quota leaves room for it.
func (e *Engine) holdMemories(ctx context.Context, use *reservation, change amount) error {
	return use.hold(ctx, change, func(kept amount) error {
		switch q := e.memoryQuota; {
		case q.Count > 0 && change.count > 0 && kept.count+change.count > q.Count:
			return errorf(NoSpace, "quota_exceeded", "the tenant keeps %d memories and may keep %d; forget some first", kept.count,
				q.Count)
		case q.Bytes > 0 && change.bytes > 0 && kept.bytes+change.bytes > q.Bytes:
			return errorf(NoSpace, "quota_exceeded",
				"the tenant's memories have %d bytes; %d more would exceed %d; forget some first", kept.bytes, change.bytes, q.Bytes)
		}
		return nil
	})
}

// countMemories counts the entries of the time index.
func (e *Engine) countMemories(ctx context.Context, tenant string) (kept amount, err error) {
	for it, err := range e.scan(ctx, tenant, kindMemoryTime.All()) {
		if err != nil {
			return kept, err
		}
		var entry memoryEntry
		if it.Damaged || json.Unmarshal(it.Value, &entry) != nil {
			e.logDamagedEntry(tenant)
		}
		kept.add(amount{1, int64(entry.Bytes + entry.Before)})
	}
	return kept, nil
}

func (r *memoryRecord) weight() int64 { return int64(len(r.Content) + r.bytesBefore()) }

func (r *memoryRecord) bytesBefore() (n int) {
	for _, kept := range r.History {
		n += kept.Bytes
	}
	return n
}
