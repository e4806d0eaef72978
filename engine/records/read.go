package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// ErrDamaged is returned if a record fails its checksum and the operation needs it.
var ErrDamaged = errors.New("a stored record failed its checksum")

// MaxOfOneRead is the maximum number of records that one round trip fetches by their keys.
const MaxOfOneRead = 512

// Get reads one record and decodes its JSON. It returns nil if there is no such record, and ErrDamaged if its
// checksum does not match.
func Get[T any](ctx context.Context, db *DB, tenant string, key []byte) (*T, error) {
	it, err := db.ReadItem(ctx, tenant, key)
	if err != nil {
		return nil, err
	}
	return decoded[T](tenant, it)
}

// GetTx is Get inside a change: it returns the record as the change leaves it. The commit then requires that nobody
// else has changed the record, or created it if there was none.
func GetTx[T any](t *Tx, key []byte) (*T, error) {
	got, err := t.Get(key)
	if err != nil {
		return nil, err
	}
	return decoded[T](t.Tenant, got[0])
}

// ReadItem reads one record as it is stored. The item may be damaged; its Value is nil if there is no record.
func (db *DB) ReadItem(ctx context.Context, tenant string, key []byte) (store.Item, error) {
	r, err := db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{key}})
	if err != nil {
		return store.Item{}, err
	}
	return r.Keys[0], nil
}

// Record is a decoded record with its key.
type Record[T any] struct {
	Key   []byte
	Value *T
}

// Each reads a range like Scan and decodes the JSON of each record. If a record is damaged or does not decode, Each
// yields an error and no Value; the loop may continue with the next one.
func Each[T any](ctx context.Context, db *DB, tenant string, rng store.Range) iter.Seq2[Record[T], error] {
	return func(yield func(Record[T], error) bool) {
		for it, err := range db.Scan(ctx, tenant, rng) {
			var value *T
			if err == nil {
				value, err = decoded[T](tenant, it)
			}
			if !yield(Record[T]{it.Key, value}, err) {
				return
			}
		}
	}
}

// scanPiece is the default number of records in one round trip of Scan.
const scanPiece = 256

// Scan reads all records of a range as they are stored, however many there are. rng.Limit does not limit the total;
// it is the number of records per round trip, 256 if it is 0. The records of one round trip come from one state of
// the store, later ones from later states. An error of the store comes last.
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
			last := items[len(items)-1].Key
			if rng.Reverse {
				rng.To = last
			} else {
				rng.From = after(last)
			}
		}
	}
}

// FirstKey returns the first key of a range, or nil if the range is empty.
func (db *DB) FirstKey(ctx context.Context, tenant string, rng store.Range) (*store.Item, error) {
	rng.Limit, rng.KeysOnly = 1, true
	r, err := db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return nil, err
	}
	return &r.Ranges[0][0], nil
}

// after returns the first key after key.
func after(key []byte) []byte { return append(key[:len(key):len(key)], 0) }

// decoded returns the decoded JSON of a record, or nil if there is no record.
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

// damaged returns ErrDamaged with the kind of the record.
func damaged(tenant string, key []byte) error {
	return fmt.Errorf("%w: %s", ErrDamaged, nameOf(tenant, key))
}
