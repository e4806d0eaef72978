package records

import (
	"context"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// SweepChunk is the maximum number of records that one step of background work removes.
const SweepChunk = 1000

// DeleteRange removes up to SweepChunk records of a range and reports whether it removed any.
func (db *DB) DeleteRange(ctx context.Context, tenant string, rng store.Range) (more bool, err error) {
	n, err := db.DeleteSome(ctx, tenant, rng)
	return n > 0, err
}

// DeleteSome removes up to SweepChunk records of a range and returns their number.
func (db *DB) DeleteSome(ctx context.Context, tenant string, rng store.Range) (n int, err error) {
	rng.Limit, rng.KeysOnly = SweepChunk, true
	r, err := db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return 0, err
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		b.Delete = append(b.Delete, it.Key)
	}
	db.Removed.of(b.IsLoose()).Store(true)
	return len(b.Delete), db.Commit(ctx, tenant, b)
}

// removals tells which classes of keys were removed since the store's files were last compacted.
type removals struct{ Main, Loose atomic.Bool }

func (r *removals) of(loose bool) *atomic.Bool {
	if loose {
		return &r.Loose
	}
	return &r.Main
}

// CompactStore lets the store rewrite its files without removed data, if it supports that and anything was removed.
// It is a step of the daily job, see jobs.Daily, and does all its work in one call.
func (db *DB) CompactStore(ctx context.Context, _ string, _ []byte) (int, []byte, error) {
	s, ok := db.Store.(interface {
		Compact(ctx context.Context, loose bool) error
	})
	if !ok {
		return 0, nil, nil
	}
	for _, loose := range []bool{false, true} {
		pending := db.Removed.of(loose)
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
