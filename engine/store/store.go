// Package store is the port to durable state: a small, ordered key-value interface, one tenant at a time. All meaning
// (keys, codecs, indexes) lives above it. Every backend passes the suite in storetest, and so do the decorators: Seal,
// which finds damage, and Long, which takes values of any length.
package store

import (
	"context"
	"errors"
	"fmt"
)

// Loose is the first byte of keys whose writes are acknowledged once written but not synced: they survive the death
// of the process, not a power cut. All other keys are synced before Commit returns. One batch is of one sort.
const Loose byte = 'z'

// IsLoose says whether a key is of the sort that is written but not synced.
func IsLoose(key []byte) bool { return len(key) > 0 && key[0] == Loose }

// Range selects the keys in [From, To), ascending or, with Reverse, descending. An empty From or To is no bound, Limit
// 0 is no limit. With KeysOnly the items come without values.
type Range struct {
	From, To []byte
	Reverse  bool
	KeysOnly bool
	Limit    int
}

// Query asks for keys and ranges at once; all are answered from one consistent state. Where it asks for both sorts of
// keys, each sort is answered from one state of its own, because no batch ever changes both.
type Query struct {
	Keys   [][]byte
	Ranges []Range
}

// Item is what a store holds under a key. Value is nil where the key is absent or the item damaged, and nowhere else. A
// damaged item failed its checksum.
type Item struct {
	Key, Value []byte
	Damaged    bool
}

// Result answers a Query: Keys[i] for Query.Keys[i], Ranges[i] for Query.Ranges[i].
type Result struct {
	Keys   []Item
	Ranges [][]Item
}

// Expect is a precondition: the key holds exactly Value, or is absent where Value is nil.
type Expect struct{ Key, Value []byte }

// Pair is one write. A nil Value is stored as an empty one.
type Pair struct{ Key, Value []byte }

// Batch is one atomic change. A key may stand in Put or Delete once; deleting an absent key does nothing.
type Batch struct {
	Expect []Expect
	Put    []Pair
	Delete [][]byte

	sealed bool // Seal has lengthened every value, which the limits do not count.
	split  bool // Long has checked the batch, and the pieces that it cut long values to are not counted again.
}

// Store keeps each tenant's keys apart: no call can see or change another tenant's. Safe for concurrent use.
type Store interface {
	// Read answers a query from one consistent state. The caller owns what it gets; the key of a single-key answer
	// is the slice it asked with.
	Read(ctx context.Context, tenant string, q Query) (Result, error)
	// Commit applies a batch whole or not at all and returns once it is as durable as its keys ask (see Loose). It does
	// not change or keep the batch. A failed precondition is a *ConflictError naming the first that failed. Where ctx
	// ends before the batch was taken up, nothing is written. Later, Commit waits for the outcome, so that only
	// ErrFailed and ErrUnknown leave open whether the batch was written.
	Commit(ctx context.Context, tenant string, b Batch) error
	// Close finishes what was taken up and waits for running reads. Closing twice is fine.
	Close() error
}

// Snapshotter is a Store that can walk over all it holds. Every backend should be one: backups and checks need it.
type Snapshotter interface {
	// Snapshot calls fn with every record of every tenant while writers go on. Synced keys come as of one instant, and
	// loose ones as of one that is no later, so that no loose record tells of what the walk does not show. One tenant's
	// records come together, in the order of their keys; the order of tenants is the backend's own. fn may take its
	// time, and may read what it is given until it returns. An error of fn ends the walk and is answered.
	Snapshot(ctx context.Context, fn func(tenant string, it Item) error) error
}

// Snapshot walks over a store, or answers errors.ErrUnsupported where it is no Snapshotter.
func Snapshot(ctx context.Context, s Store, fn func(tenant string, it Item) error) error {
	if walker, ok := s.(Snapshotter); ok {
		return walker.Snapshot(ctx, fn)
	}
	return errors.ErrUnsupported
}

// Errors that a store answers. Wrapped errors add context, never keys or values.
var (
	// ErrNoSpace refuses a write because the disk is nearly full. Reads go on.
	ErrNoSpace = errors.New("not enough free space to write safely")
	// ErrNoDescriptors refuses a write because the process or the system has no file descriptor left. Nothing was written.
	ErrNoDescriptors = errors.New("no file descriptor is left to write safely")
	// ErrFailed refuses every write after a commit whose outcome is unknown, until the process is restarted.
	ErrFailed = errors.New("store stopped writing after a commit of unknown outcome")
	// ErrDamaged refuses every write because files of the store are damaged and acknowledged writes are lost, until
	// somebody repairs them. Reads go on.
	ErrDamaged = errors.New("acknowledged writes were lost to damaged files")
	// ErrUnavailable is answered where the database is away or too contended. Nothing was written.
	ErrUnavailable = errors.New("the database cannot be reached or is too busy")
	// ErrUnknown is answered by a commit that was under way when the database was lost, and stayed lost: it may or may
	// not have happened. Reads and later commits are not affected.
	ErrUnknown = errors.New("the database was lost during a commit, whose outcome is unknown")
	// ErrTooLarge refuses what exceeds the Max constants.
	ErrTooLarge = errors.New("request exceeds the store's limits")
	// ErrMixed refuses a batch that mixes loose and synced keys.
	ErrMixed = errors.New("batch mixes loose and synced keys")
	// ErrDuplicate refuses a batch that puts or deletes one key twice.
	ErrDuplicate = errors.New("batch writes one key twice")
	// ErrClosed is answered after Close.
	ErrClosed = errors.New("store is closed")
)

// ConflictError says which precondition of a batch did not hold. Nothing was written.
type ConflictError struct{ Index int }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("precondition %d does not hold", e.Index)
}

// Figure is a number that a store tells of itself, for those who watch it.
type Figure struct {
	Name, Help string
	Counter    bool        // It only grows.
	Labels     [][2]string // Names and values.
	Value      float64
}

// Figures asks a store for its figures; it may have none.
func Figures(s Store) []Figure {
	if f, ok := s.(interface{ Figures() []Figure }); ok {
		return f.Figures()
	}
	return nil
}

// Epoch asks a store which stretch of its history it reads. Where the answer is another one than before, what was read
// or acknowledged before may be gone. It is always empty for a store that cannot go back while it is open.
func Epoch(s Store) string {
	if e, ok := s.(interface{ Epoch() string }); ok {
		return e.Epoch()
	}
	return ""
}

// Confirm makes sure that what was read is as durable as what Commit acknowledges, for an answer that acknowledges an
// earlier commit. A replicated database shows what a commit wrote that it gave up waiting for. It answers ErrUnknown
// where it cannot tell, and does nothing where a store shows only what is durable.
func Confirm(ctx context.Context, s Store) error {
	if c, ok := s.(interface{ Confirm(context.Context) error }); ok {
		return c.Confirm(ctx)
	}
	return nil
}
