package pgstore

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The limits of reads that share a statement.
const (
	mostJoined     = 16  // reads
	mostJoinedKeys = 128 // of all of them; a single read may have more
)

// lookup is a read of keys, in a queue.
type lookup struct {
	entry
	tenant []byte
	keys   [][]byte
	values [][]byte // nil if a key is absent
}

// readKeys returns the items of keys as of one state.
func (s *Store) readKeys(ctx context.Context, tenant string, keys [][]byte) ([]store.Item, error) {
	items := make([]store.Item, len(keys))
	if len(keys) == 0 {
		return items, nil
	}
	// The caller may return, and change its keys, before the database has them.
	size := 0
	for _, key := range keys {
		size += len(key)
	}
	arena, own := make([]byte, 0, size), make([][]byte, len(keys))
	for i, key := range keys {
		arena = append(arena, key...)
		own[i] = arena[len(arena)-len(key) : len(arena) : len(arena)]
	}
	err := s.retry(ctx, func() error {
		l := &lookup{entry: newEntry(), tenant: []byte(tenant), keys: own}
		err := s.lookups.do(ctx, l, true)
		if err != nil {
			return err
		}
		for i, key := range keys {
			items[i] = store.Item{Key: key, Value: l.values[i]}
		}
		return nil
	})
	return items, err
}

// joinable returns how many of the first reads fit into one statement.
func joinable(waiting []*lookup) int {
	keys := 0
	for i, l := range waiting {
		keys += len(l.keys)
		if i == mostJoined || i > 0 && keys > mostJoinedKeys {
			return i
		}
	}
	return len(waiting)
}

// findKeys returns the numbers, from 1, and the values of the keys that exist.
const findKeys = `SELECT k.i, r.value FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS k (tenant, key, i), ` +
	lookUp + ` AS r`

// lookUp answers reads with one statement.
func (s *Store) lookUp(all []*lookup) {
	err := s.lookUpOnce(all)
	s.dropDead(err)
	for _, l := range all {
		l.done <- err
	}
}

func (s *Store) lookUpOnce(all []*lookup) error {
	var tenants, keys [][]byte
	var values []*[]byte // where to put the results
	for _, l := range all {
		l.values = make([][]byte, len(l.keys))
		for i, key := range l.keys {
			tenants, keys, values = append(tenants, l.tenant), append(keys, key), append(values, &l.values[i])
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.reading)
	defer cancel()
	conn, err := s.acquire(ctx, s.main)
	if err != nil {
		return err
	}
	defer conn.Release()
	var n int
	var value []byte
	err = s.guard.query(ctx, conn, findKeys, []any{tenants, keys}, []any{&n, &value}, func() error {
		*values[n-1] = value
		return nil
	})
	if err == nil && s.former(linkOf(conn)) {
		err = errFormer
	}
	return err
}
