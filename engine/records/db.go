package records

import (
	"crypto/rand"
	"io"
	"log/slog"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// DB is the store with what every room needs beside it: a clock, ids, a log and locks.
type DB struct {
	Store     store.Store
	Log       *slog.Logger
	Clock     func() time.Time
	Entropy   io.Reader
	Alone     bool // no other process works on the store
	locks     *locks
	Removed   removals
	Committed func(tenant string, b store.Batch) // called after each commit
}

// New makes a DB over a sealed store, whose values may then have any length. Without a log nothing is logged; clock and
// entropy are the system's where they are nil. Alone says that no other process works on the store.
func New(s store.Store, log *slog.Logger, clock func() time.Time, entropy io.Reader, alone bool) *DB {
	db := &DB{Store: LongValues(s), Log: log, Clock: clock, Entropy: entropy, Alone: alone, locks: newLocks()}
	if db.Log == nil {
		db.Log = slog.New(slog.DiscardHandler)
	}
	if db.Clock == nil {
		db.Clock = time.Now
	}
	if db.Entropy == nil {
		db.Entropy = rand.Reader
	}
	db.Removed.Main.Store(true)
	db.Removed.Loose.Store(true)
	return db
}
