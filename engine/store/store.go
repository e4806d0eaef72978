// Package store defines the interface to durable storage: a small, ordered key-value store, one tenant at a time. It
// does not interpret its data: keys, codecs and indexes are defined in packages above it. Every backend passes the
// tests in storetest, and so do the decorators: Seal, which detects damage, and Long, which accepts values of any
// length.
package store

import (
	"context"
	"errors"
	"fmt"
)

// Loose is the first byte of keys whose writes are acknowledged once written but not synced: they survive a crash of
// the process, but not a power cut. All other keys are synced before Commit returns. A batch has keys of one class
// only.
const Loose byte = 'z'

// IsLoose reports whether writes of a key are not synced.
func IsLoose(key []byte) bool { return len(key) > 0 && key[0] == Loose }

// Range selects the keys in [From, To), ascending or, with Reverse, descending. An empty From or To means no bound,
// Limit 0 means no limit. With KeysOnly the items have no values.
type Range struct {
	From, To []byte
	Reverse  bool
	KeysOnly bool
	Limit    int
}

// Query asks for keys and ranges; all are answered from one consistent state. If it asks for both classes of keys,
// each class has its own state, because no batch ever changes both.
type Query struct {
	Keys   [][]byte
	Ranges []Range
}

// Item is a key and what a store holds under it. Value is nil only if the key is absent or the item is damaged. A
// damaged item failed its checksum.
type Item struct {
	Key, Value []byte
	Damaged    bool
}

// Result is the answer to a Query: Keys[i] for Query.Keys[i], Ranges[i] for Query.Ranges[i].
type Result struct {
	Keys   []Item
	Ranges [][]Item
}

// Expect is a precondition: the key has exactly the value Value, or is absent if Value is nil.
type Expect struct{ Key, Value []byte }

// Pair is one write. A nil Value is stored as an empty one.
type Pair struct{ Key, Value []byte }

// Batch is one atomic change. A key may occur once in Put or Delete; deleting an absent key does nothing.
type Batch struct {
	Expect []Expect
	Put    []Pair
	Delete [][]byte

	sealed bool // Seal has lengthened every value, which does not count against the limits
	split  bool // Long has checked the batch; the pieces of its long values are not counted again
}

// Store separates tenants: no call can see or change another tenant's keys. It is safe for concurrent use.
type Store interface {
	// Read answers a query from one consistent state. The caller owns the result, but the key of a single-key answer
	// is the slice in the query.
	Read(ctx context.Context, tenant string, q Query) (Result, error)
	// Commit applies a batch atomically and returns once it is as durable as its keys require (see Loose). It does
	// not change or keep the batch. If a precondition fails, the error is a *ConflictError with the index of the
	// first that failed. If ctx ends before the batch is started, nothing is written. After that, Commit waits for
	// the outcome, so only ErrFailed and ErrUnknown leave open whether the batch was written.
	Commit(ctx context.Context, tenant string, b Batch) error
	// Close finishes started commits and waits for running reads. It may be called twice.
	Close() error
}

// Snapshotter is a Store that can walk over all its data. Every backend should implement it: backups and checks need
// it.
type Snapshotter interface {
	// Snapshot calls fn with every record of every tenant while writers continue. Synced keys are as of one instant,
	// and loose keys as of an instant that is not later, so that no loose record refers to a synced one that the walk
	// does not show. The records of one tenant come together, in key order; the order of tenants depends on the
	// backend. fn may be slow, and may use its arguments only until it returns. An error of fn ends the walk and is
	// returned.
	Snapshot(ctx context.Context, fn func(tenant string, it Item) error) error
}

// Snapshot walks over a store. It returns errors.ErrUnsupported if the store is not a Snapshotter.
func Snapshot(ctx context.Context, s Store, fn func(tenant string, it Item) error) error {
	if walker, ok := s.(Snapshotter); ok {
		return walker.Snapshot(ctx, fn)
	}
	return errors.ErrUnsupported
}

// Errors of stores. Wrapped errors add context, but never keys or values.
var (
	// ErrNoSpace is returned for a write because the disk is nearly full. Reads continue.
	ErrNoSpace = errors.New("not enough free space to write safely")
	// ErrNoDescriptors is returned for a write because the process or the system has no free file descriptor. Nothing
	// was written.
	ErrNoDescriptors = errors.New("no file descriptor is left to write safely")
	// ErrFailed is returned for every write after a commit with unknown outcome, until the process is restarted.
	ErrFailed = errors.New("store stopped writing after a commit of unknown outcome")
	// ErrDamaged is returned for every write because files of the store are damaged and acknowledged writes are lost,
	// until the operator repairs them. Reads continue.
	ErrDamaged = errors.New("acknowledged writes were lost to damaged files")
	// ErrUnavailable is returned if the database is unreachable or too contended. Nothing was written.
	ErrUnavailable = errors.New("the database cannot be reached or is too busy")
	// ErrUnknown is returned for a commit during which the database was lost and could not be reached again: it may
	// or may not have happened. Reads and later commits are not affected.
	ErrUnknown = errors.New("the database was lost during a commit, whose outcome is unknown")
	// ErrTooLarge is returned for requests that exceed the Max constants.
	ErrTooLarge = errors.New("request exceeds the store's limits")
	// ErrMixed is returned for a batch that mixes loose and synced keys.
	ErrMixed = errors.New("batch mixes loose and synced keys")
	// ErrDuplicate is returned for a batch that puts or deletes the same key twice.
	ErrDuplicate = errors.New("batch writes one key twice")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("store is closed")
)

// ConflictError says which precondition of a batch did not hold. Nothing was written.
type ConflictError struct{ Index int }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("precondition %d does not hold", e.Index)
}

// Figure is one metric of a store.
type Figure struct {
	Name, Help string
	Counter    bool        // it only grows
	Labels     [][2]string // names and values
	Value      float64
}

// Figures returns the metrics of a store; it may have none.
func Figures(s Store) []Figure {
	if f, ok := s.(interface{ Figures() []Figure }); ok {
		return f.Figures()
	}
	return nil
}

// Tables returns the number of table files that a store keeps open, or false if it keeps none in this process.
func Tables(s Store) (int, bool) {
	if t, ok := s.(interface{ Tables() (int, bool) }); ok {
		return t.Tables()
	}
	return 0, false
}

// Epoch returns the name of the stretch of history that a store reads. If it changes, data that was read or
// acknowledged before may be lost. It is always empty for a store that cannot go back while it is open.
func Epoch(s Store) string {
	if e, ok := s.(interface{ Epoch() string }); ok {
		return e.Epoch()
	}
	return ""
}

// Confirm ensures that data that was read is as durable as what Commit acknowledges. Call it before acknowledging an
// earlier commit. A replicated database may show the writes of a commit that stopped waiting for its standby. Confirm
// returns ErrUnknown if it cannot tell, and does nothing if a store only shows durable data.
func Confirm(ctx context.Context, s Store) error {
	if c, ok := s.(interface{ Confirm(context.Context) error }); ok {
		return c.Confirm(ctx)
	}
	return nil
}
