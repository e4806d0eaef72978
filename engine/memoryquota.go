package engine

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// MemoryQuota bounds the memories of one tenant; 0 is no bound. Bytes counts content, what memories were before
// included.
type MemoryQuota struct {
	Count int
	Bytes int64
}

// A tally is good for that long by itself, and to refuse something only for that much shorter: what other processes
// store, and what sweeps remove, is not in it.
const (
	tallyLife    = time.Minute
	tallyRefuses = time.Second
)

// memoryUse knows how much each tenant keeps, where there is a quota. Nothing of it is stored: a stored count would be
// one record that every store of a tenant has to change, and would be wrong for what was there before the quota was.
// Instead a tenant is counted now and then, from the time index, and this process's own changes are added.
type memoryUse struct {
	e       *Engine
	quota   MemoryQuota
	mu      sync.Mutex
	tenants map[string]*memoryTally
}

type memoryTally struct {
	mu      sync.Mutex
	kept    memoryAmount // pending included
	pending memoryAmount // reserved, and not known to be committed
	counted time.Time
}

// memoryAmount is how many memories there are, and the bytes of their contents.
type memoryAmount struct {
	count int
	bytes int64
}

func (u *memoryAmount) add(v memoryAmount) { u.count, u.bytes = u.count+v.count, u.bytes+v.bytes }

func (u *memoryAmount) subtract(v memoryAmount) { u.add(memoryAmount{-v.count, -v.bytes}) }

// reservation is what one change adds to a tally, held from before its commit, so that changes at the same time do not
// all fit into the same room. Nil where there is no quota.
type reservation struct {
	use    *memoryUse
	tally  *memoryTally
	tenant string
	taken  memoryAmount
}

func newMemoryUse(e *Engine, q MemoryQuota) *memoryUse {
	return &memoryUse{e: e, quota: q, tenants: map[string]*memoryTally{}}
}

func (u *memoryUse) reserve(tenant string) *reservation {
	if u.quota == (MemoryQuota{}) {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.tenants[tenant]
	if t == nil {
		t = new(memoryTally)
		u.tenants[tenant] = t
	}
	return &reservation{use: u, tally: t, tenant: tenant}
}

// take reserves what putting rec in old's place adds; either may be nil.
func (r *reservation) take(t *tx, old, rec *memoryRecord) error {
	var change memoryAmount
	if rec != nil {
		change.add(memoryAmount{1, rec.weight()})
	}
	if old != nil {
		change.subtract(memoryAmount{1, old.weight()})
	}
	return r.reserve(t.ctx, change, t.now)
}

// reserve reserves a change, in place of what an earlier attempt took.
func (r *reservation) reserve(ctx context.Context, change memoryAmount, now time.Time) error {
	if r == nil {
		return nil
	}
	y := r.tally
	y.mu.Lock()
	defer y.mu.Unlock()
	r.giveBack()
	for _, life := range [...]time.Duration{tallyLife, tallyRefuses} {
		if y.counted.IsZero() || now.Sub(y.counted) >= life {
			if err := r.recount(ctx, now); err != nil {
				return err
			}
		}
		full := r.refusal(change)
		if full == nil {
			break
		}
		if life == tallyRefuses {
			return full
		}
	}
	r.taken = change
	y.kept.add(change)
	y.pending.add(change)
	return nil
}

func (r *reservation) refusal(change memoryAmount) error {
	kept, q := r.tally.kept, r.use.quota
	switch {
	case q.Count > 0 && change.count > 0 && kept.count+change.count > q.Count:
		return errorf(NoSpace, "quota_exceeded", "the tenant keeps %d memories and may keep %d; forget some first", kept.count,
			q.Count)
	case q.Bytes > 0 && change.bytes > 0 && kept.bytes+change.bytes > q.Bytes:
		return errorf(NoSpace, "quota_exceeded",
			"the tenant's memories have %d bytes; %d more would exceed %d; forget some first", kept.bytes, change.bytes, q.Bytes)
	}
	return nil
}

// giveBack is called with the tally locked.
func (r *reservation) giveBack() {
	r.tally.kept.subtract(r.taken)
	r.tally.pending.subtract(r.taken)
	r.taken = memoryAmount{}
}

// end keeps what was taken where the change was committed. An idempotent request that was answered from before counts
// twice, until the next recount.
func (r *reservation) end(committed bool) {
	if r == nil {
		return
	}
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	if committed {
		r.tally.kept.add(r.taken)
	}
	r.giveBack()
}

// recount reads how much the tenant keeps. The tally is locked. What is pending may be in the store already, and then
// counts twice until the next recount: too much is refused rather than too little.
func (r *reservation) recount(ctx context.Context, now time.Time) error {
	kept := r.tally.pending
	for it, err := range r.use.e.scan(ctx, r.tenant, prefixRange(memoryTimes())) {
		if err != nil {
			return err
		}
		var entry memoryEntry
		if it.Damaged || json.Unmarshal(it.Value, &entry) != nil {
			r.use.e.logDamagedEntry(r.tenant)
		}
		kept.add(memoryAmount{1, int64(entry.Bytes + entry.Before)})
	}
	r.tally.kept, r.tally.counted = kept, now
	return nil
}

func (r *memoryRecord) weight() int64 { return int64(len(r.Content) + r.bytesBefore()) }

func (r *memoryRecord) bytesBefore() (n int) {
	for _, kept := range r.History {
		n += kept.Bytes
	}
	return n
}
