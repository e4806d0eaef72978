package engine

import (
	"context"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sweepChunk is how many records one Step removes at most.
const sweepChunk = 1000

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

// firstKey finds the first key of a range; nil where the range is empty.
func (e *Engine) firstKey(ctx context.Context, tenant string, rng store.Range) (*store.Item, error) {
	rng.Limit, rng.KeysOnly = 1, true
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return nil, err
	}
	return &r.Ranges[0][0], nil
}

// removals tells which sorts of keys were removed since the store's files were last compacted. Both start true, because
// an earlier process may have deleted keys without compacting.
type removals struct{ main, loose atomic.Bool }

func (r *removals) of(loose bool) *atomic.Bool {
	if loose {
		return &r.loose
	}
	return &r.main
}

// compactStore has the store's files rid of what was removed, where the store can do that and anything was.
func (e *Engine) compactStore(ctx context.Context, _ string, _ []byte) (int, []byte, error) {
	s, ok := e.store.(interface {
		Compact(ctx context.Context, loose bool) error
	})
	if !ok {
		return 0, nil, nil
	}
	for _, loose := range []bool{false, true} {
		pending := e.removed.of(loose)
		if !pending.Swap(false) {
			continue
		}
		if err := s.Compact(ctx, loose); err != nil {
			pending.Store(true)
			return 0, nil, err
		}
	}
	return 0, nil, nil
}
