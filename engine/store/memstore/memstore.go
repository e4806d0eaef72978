// Package memstore is the reference implementation of store.Store: ordered, in memory and simple enough to be read as
// its definition. Tests of the engine use it, and every other backend is compared with it.
package memstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Store implements store.Store in memory. Use New to create one. Its data is lost with the process.
type Store struct {
	mu      sync.RWMutex
	closed  bool
	tenants map[string]pairs
}

var (
	_ store.Store       = (*Store)(nil)
	_ store.Snapshotter = (*Store)(nil)
)

// New returns an empty store.
func New() *Store { return &Store{tenants: map[string]pairs{}} }

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return store.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Result{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.Result{}, store.ErrClosed
	}
	stored := s.tenants[tenant]
	res := store.Result{Keys: make([]store.Item, len(q.Keys)), Ranges: make([][]store.Item, len(q.Ranges))}
	for i, key := range q.Keys {
		res.Keys[i].Key = key
		if value, ok := stored.get(key); ok {
			res.Keys[i].Value = own(value)
		}
	}
	for i, r := range q.Ranges {
		for _, p := range stored.scan(r) {
			it := store.Item{Key: own(p.Key)}
			if !r.KeysOnly {
				it.Value = own(p.Value)
			}
			res.Ranges[i] = append(res.Ranges[i], it)
		}
	}
	return res, nil
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if err := b.Check(tenant); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	stored := s.tenants[tenant]
	for i, e := range b.Expect {
		value, ok := stored.get(e.Key)
		if ok != (e.Value != nil) || !bytes.Equal(value, e.Value) {
			return &store.ConflictError{Index: i}
		}
	}
	for _, p := range b.Put {
		stored = stored.put(own(p.Key), own(p.Value))
	}
	for _, key := range b.Delete {
		stored = stored.delete(key)
	}
	s.tenants[tenant] = stored
	return nil
}

// Snapshot implements store.Snapshotter.
func (s *Store) Snapshot(ctx context.Context, fn func(tenant string, it store.Item) error) error {
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return store.ErrClosed
	}
	all := maps.Clone(s.tenants)
	for tenant, stored := range all {
		all[tenant] = slices.Clone(stored) // values are replaced, never changed
	}
	s.mu.RUnlock()
	for _, tenant := range slices.Sorted(maps.Keys(all)) {
		for _, p := range all[tenant] {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(tenant, store.Item{Key: p.Key, Value: p.Value}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// own returns a copy of b that is never nil.
func own(b []byte) []byte { return append([]byte{}, b...) }

// pairs are sorted by key, each key once.
type pairs []store.Pair

// find returns the index at which a key is or would be.
func (ps pairs) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(ps, key, func(p store.Pair, key []byte) int { return bytes.Compare(p.Key, key) })
}

func (ps pairs) get(key []byte) ([]byte, bool) {
	i, ok := ps.find(key)
	if !ok {
		return nil, false
	}
	return ps[i].Value, true
}

func (ps pairs) put(key, value []byte) pairs {
	i, ok := ps.find(key)
	if !ok {
		return slices.Insert(ps, i, store.Pair{Key: key, Value: value})
	}
	ps[i].Value = value
	return ps
}

func (ps pairs) delete(key []byte) pairs {
	if i, ok := ps.find(key); ok {
		return slices.Delete(ps, i, i+1)
	}
	return ps
}

// scan returns the pairs in a range, in the order of the range.
func (ps pairs) scan(r store.Range) pairs {
	from, _ := ps.find(r.From)
	to := len(ps)
	if len(r.To) > 0 {
		to, _ = ps.find(r.To)
	}
	if from >= to {
		return nil
	}
	found := ps[from:to]
	n := len(found)
	if r.Limit > 0 {
		n = min(n, r.Limit)
	}
	if !r.Reverse {
		return found[:n]
	}
	last := slices.Clone(found[len(found)-n:])
	slices.Reverse(last)
	return last
}
