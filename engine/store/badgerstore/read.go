package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// errUnreadable replaces Badger's error for an unreadable block, because that contains the key.
var errUnreadable = errors.New("stored data cannot be read: damaged files")

// recoverDamage, deferred, turns a panic into an error, because Badger panics on some kinds of damage.
func recoverDamage(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w (%T)", errUnreadable, p)
	}
}

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, tenant string, q store.Query) (res store.Result, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return store.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Result{}, err
	}
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return store.Result{}, store.ErrClosed
	}
	r := reader{ctx: ctx, store: s, tenant: tenant, notes: len(q.Keys) <= mostNoted}
	defer r.close()
	failed := failedBlocks.Load()
	defer func() {
		if err == nil && failedBlocks.Load() > failed {
			res, err = store.Result{}, errUnreadable
		}
	}()
	defer recoverDamage(&err)
	if len(q.Keys) > 0 {
		res.Keys = make([]store.Item, len(q.Keys))
	}
	for i, key := range q.Keys {
		if res.Keys[i], err = r.get(key); err != nil {
			return store.Result{}, err
		}
	}
	if len(q.Ranges) > 0 {
		res.Ranges = make([][]store.Item, len(q.Ranges))
	}
	for i, rg := range q.Ranges {
		if res.Ranges[i], err = r.scan(rg); err != nil {
			return store.Result{}, err
		}
	}
	return res, nil
}

// mostNoted limits the keys of a query whose values are cached. Requests begin with a few keys, the same each time. A
// query with many keys has different ones the next time.
const mostNoted = 16

// reader answers one query from one snapshot of each database that it needs.
type reader struct {
	ctx    context.Context
	store  *Store
	tenant string
	views  [2]view // main, loose
	key    []byte  // the current stored key
	notes  bool    // whether to cache the values of single keys
	out    arena
}

// view is a snapshot of a database. It is pinned on first use, and opened if the cache does not have a value.
type view struct {
	of       *database
	snapshot *snapshot
	txn      *badger.Txn
}

func (r *reader) view(loose bool) *view {
	v := &r.views[0]
	if loose {
		v = &r.views[1]
	}
	if v.snapshot == nil {
		v.of = r.store.database(loose)
		v.snapshot = v.of.snapshots.pin()
	}
	return v
}

func (v *view) open() *badger.Txn {
	if v.txn == nil {
		v.txn = v.of.db.NewTransactionAt(v.snapshot.version, false)
	}
	return v.txn
}

func (r *reader) close() {
	for _, v := range r.views {
		if v.snapshot != nil {
			v.of.snapshots.unpin(v.snapshot)
		}
		if v.txn != nil {
			discard(v.txn)
		}
	}
}

// discard ends a read transaction. Badger panics if creating an iterator of it panicked before. There is nothing to
// release then.
func discard(txn *badger.Txn) {
	defer func() { _ = recover() }()
	txn.Discard()
}

func (r *reader) get(key []byte) (store.Item, error) {
	r.key = appendKey(r.key[:0], r.tenant, key)
	v := r.view(store.IsLoose(key))
	if v.of.doubts(r.key, append(r.key, 0)) {
		return store.Item{}, errUnreadable
	}
	version := v.snapshot.version
	if value, ok := v.of.cache.Get(r.key, version); ok {
		if value != nil {
			value = r.out.copy(value)
		}
		return store.Item{Key: key, Value: value}, nil
	}
	item, err := v.open().Get(r.key)
	var value []byte
	switch {
	case err == nil:
		value, err = r.value(item)
	case errors.Is(err, badger.ErrKeyNotFound):
		err = nil
	default:
		err = errUnreadable
	}
	if r.notes && err == nil && v.of.damaged() == nil { // otherwise a block may have been treated as the end of its table
		v.of.cache.Note(r.key, value, version)
	}
	return store.Item{Key: key, Value: value}, err
}

func (r *reader) value(item *badger.Item) (own []byte, err error) {
	err = item.Value(func(v []byte) error {
		own = r.out.copy(v)
		return nil
	})
	if err != nil {
		return nil, errUnreadable
	}
	return own, nil
}

// scan reads a range, which may span both databases.
func (r *reader) scan(rg store.Range) ([]store.Item, error) {
	parts := split(rg)
	if rg.Reverse {
		parts[0], parts[2] = parts[2], parts[0]
	}
	var items []store.Item
	var err error
	for _, p := range parts {
		if !p.empty && (rg.Limit <= 0 || len(items) < rg.Limit) {
			if items, err = r.scanPart(p, rg, items); err != nil {
				return nil, err
			}
		}
	}
	return items, nil
}

// checkEvery is the number of items after which a scan checks whether its context has ended.
const checkEvery = 256

func (r *reader) scanPart(p part, rg store.Range, items []store.Item) ([]store.Item, error) {
	from := appendKey(nil, r.tenant, p.from)
	to := prefixEnd(r.tenant)
	if len(p.to) > 0 {
		to = appendKey(nil, r.tenant, p.to)
	}
	if r.store.database(p.loose).doubts(from, to) {
		return nil, errUnreadable
	}
	it := r.view(p.loose).open().NewIterator(badger.IteratorOptions{
		Reverse: rg.Reverse,
		// All keys between the ends share their common prefix; tables without it are not opened.
		Prefix: from[:commonPrefix(from, to)],
		// Prefetching starts a goroutine for each value, which does not pay because no value is in the value log.
		PrefetchValues: false,
	})
	defer it.Close()
	if rg.Reverse {
		it.Seek(to)
		if it.Valid() && bytes.Equal(it.Item().Key(), to) {
			it.Next()
		}
	} else {
		it.Seek(from)
	}
	for n := 1; it.Valid(); it.Next() {
		item := it.Item()
		key := item.Key()
		if bytes.Compare(key, from) < 0 || bytes.Compare(key, to) >= 0 {
			break
		}
		var value []byte
		if !rg.KeysOnly {
			var err error
			if value, err = r.value(item); err != nil {
				return nil, err
			}
		}
		items = append(items, store.Item{Key: r.out.copy(key[1+len(r.tenant):]), Value: value})
		if rg.Limit > 0 && len(items) == rg.Limit {
			break
		}
		if n++; n%checkEvery == 0 && r.ctx.Err() != nil {
			return nil, r.ctx.Err()
		}
	}
	return items, nil
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// part is the part of a range that is in one database.
type part struct {
	from, to []byte
	loose    bool
	empty    bool
}

// split splits a range at the first and the last loose key: the keys below them, the loose keys, and those above.
func split(rg store.Range) [3]part {
	loose, above := []byte{store.Loose}, []byte{store.Loose + 1}
	parts := [3]part{
		{from: rg.From, to: lower(rg.To, loose)},
		{from: higher(rg.From, loose), to: lower(rg.To, above), loose: true},
		{from: higher(rg.From, above), to: rg.To},
	}
	for i := range parts {
		p := &parts[i]
		p.empty = len(p.to) > 0 && bytes.Compare(p.from, p.to) >= 0
	}
	return parts
}

func higher(from, bound []byte) []byte {
	if bytes.Compare(from, bound) < 0 {
		return bound
	}
	return from
}

// lower returns the smaller of to and bound. An empty to means no end.
func lower(to, bound []byte) []byte {
	if len(to) == 0 || bytes.Compare(to, bound) > 0 {
		return bound
	}
	return to
}

// arena allocates copies from few large allocations.
type arena struct{ free []byte }

const (
	firstChunk = 1 << 10
	maxChunk   = 64 << 10
)

// copy returns a copy that is never nil. Appending to it does not overwrite other copies.
func (a *arena) copy(b []byte) []byte {
	if len(b) == 0 {
		return []byte{}
	}
	if len(b) > cap(a.free)-len(a.free) {
		size := min(max(firstChunk, 2*cap(a.free)), maxChunk)
		a.free = make([]byte, 0, max(size, len(b)))
	}
	start := len(a.free)
	a.free = append(a.free, b...)
	return a.free[start:len(a.free):len(a.free)]
}
