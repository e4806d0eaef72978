package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// ErrDamaged is answered where a record that everything hangs on failed its checksum.
var ErrDamaged = errors.New("a stored record failed its checksum")

// damaged is errDamaged with the kind of the record. The key stays out of it, because keys hold clients' names.
func damaged(tenant string, key []byte) error {
	return fmt.Errorf("%w: %s", ErrDamaged, nameOf(tenant, key))
}

// nameOf is the name of a key's kind.
func nameOf(tenant string, key []byte) string {
	if k := KindOf(tenant, key); k != nil {
		return k.Name
	}
	return "of no kind"
}

// decoded gives what a record's JSON says, or nil where there is no record.
func decoded[T any](tenant string, it store.Item) (*T, error) {
	if it.Damaged {
		return nil, damaged(tenant, it.Key)
	}
	if it.Value == nil {
		return nil, nil
	}
	value := new(T)
	if err := json.Unmarshal(it.Value, value); err != nil {
		return nil, fmt.Errorf("decoding a record, %s: %w", nameOf(tenant, it.Key), err)
	}
	return value, nil
}

// ReadItem reads one record as it is stored.
func (db *DB) ReadItem(ctx context.Context, tenant string, key []byte) (store.Item, error) {
	r, err := db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{key}})
	if err != nil {
		return store.Item{}, err
	}
	return r.Keys[0], nil
}

// Get reads one record; nil where there is none.
func Get[T any](ctx context.Context, db *DB, tenant string, key []byte) (*T, error) {
	it, err := db.ReadItem(ctx, tenant, key)
	if err != nil {
		return nil, err
	}
	return decoded[T](tenant, it)
}

// GetTx reads one record, nil where there is none, and makes its value a precondition of the commit.
func GetTx[T any](t *Tx, key []byte) (*T, error) {
	got, err := t.Get(key)
	if err != nil {
		return nil, err
	}
	return decoded[T](t.Tenant, got[0])
}

// scanPiece is how many records one read of a range takes where the range does not say.
const scanPiece = 256

// Scan reads a range, whatever its length, in pieces of as many records as its Limit says. Each piece is of one state,
// the whole is not. An error of the store ends it.
func (db *DB) Scan(ctx context.Context, tenant string, rng store.Range) iter.Seq2[store.Item, error] {
	if rng.Limit == 0 {
		rng.Limit = scanPiece
	}
	return func(yield func(store.Item, error) bool) {
		for rng := rng; ; {
			r, err := db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
			if err != nil {
				yield(store.Item{}, err)
				return
			}
			items := r.Ranges[0]
			for _, it := range items {
				if !yield(it, nil) {
					return
				}
			}
			if len(items) < rng.Limit {
				return
			}
			if last := items[len(items)-1].Key; rng.Reverse {
				rng.To = last
			} else {
				rng.From = after(last)
			}
		}
	}
}

// after is the first key behind a key.
func after(key []byte) []byte { return append(key[:len(key):len(key)], 0) }

// entry is a record of a range.
type entry[T any] struct {
	Key   []byte
	Value *T
}

// Each reads a range as scan does, decoded. A record that is damaged or does not decode comes with an error and without
// a Value; whoever goes on gets the next one.
func Each[T any](ctx context.Context, db *DB, tenant string, rng store.Range) iter.Seq2[entry[T], error] {
	return func(yield func(entry[T], error) bool) {
		for it, err := range db.Scan(ctx, tenant, rng) {
			var value *T
			if err == nil {
				value, err = decoded[T](tenant, it)
			}
			if !yield(entry[T]{it.Key, value}, err) {
				return
			}
		}
	}
}
