// Package records is the floor that every room of the engine stands on: what is stored, and the ways to read and write
// it.
//
// kinds.go is the table of all kinds of records. A kind makes keys of typed parts and splits keys into them, so that no
// room knows the layout of a key:
//
//	key := records.Session.Key(project, "s-1")
//	project, id, ok := records.Session.Split(key)
//	all := records.Session.Under(project)
//
// Reading goes through five functions, all of which name the kind of a damaged record in their errors:
//
//	Get       one record, decoded from JSON; nil where there is none
//	GetTx     the same inside a change, which then succeeds only if the record has not changed meanwhile
//	Each      all records of a range, decoded
//	DB.Scan   all records of a range, as they are stored
//	ListPage  one page of a listing, with the cursor of the next
//
// Writing goes through Update. It runs a function that collects a change in a Tx, and commits the change whole; where
// another writer came first, it runs the function again. The hard idea is that being right needs no locks: every record
// that a Tx has read is a precondition of its commit. Something too large for one commit is written by Staging where
// nobody sees it, and one last commit reveals it.
package records

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"io"
	"log/slog"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// DB is the store with what every room needs beside it: a clock, ids, a log and locks.
type DB struct {
	Store   store.Store
	Log     *slog.Logger
	Clock   func() time.Time // the system's, for how long something takes; for when something is, see Now
	Entropy io.Reader        // the source of ids and keys
	Alone   bool             // no other process works on the store
	Removed removals
	// Committed, where it is set, is called after each commit.
	Committed func(tenant string, b store.Batch)
	locks     *locks
	time      timekeeper
}

// New makes a DB over a sealed store, whose values may then have any length. Where log is nil, nothing is logged; clock
// and entropy are the system's where they are nil. alone says that no other process works on the store.
func New(s store.Store, log *slog.Logger, clock func() time.Time, entropy io.Reader, alone bool) *DB {
	db := &DB{Store: LongValues(s), Log: log, Clock: clock, Entropy: entropy, Alone: alone, locks: newLocks()}
	if db.Log == nil {
		db.Log = slog.New(slog.DiscardHandler)
	}
	if db.Clock == nil {
		start := time.Now()
		db.Clock, db.time.uptime = time.Now, func() time.Duration { return time.Since(start) }
	}
	db.time.clock = db.Clock
	if db.Entropy == nil {
		db.Entropy = rand.Reader
	}
	// Both start true, because an earlier process may have deleted records without compacting the files.
	db.Removed.Main.Store(true)
	db.Removed.Loose.Store(true)
	return db
}

// Random fills b from the source of ids. It panics where that source fails, because nothing would be safe to do.
func (db *DB) Random(b []byte) {
	if _, err := io.ReadFull(db.Entropy, b); err != nil {
		panic("reading random bytes: " + err.Error())
	}
}

// NewID makes an id: the prefix and n random bytes as text.
func (db *DB) NewID(prefix string, n int) string {
	b := make([]byte, n)
	db.Random(b)
	return prefix + ident.Alphabet.EncodeToString(b)
}

// NewIncarnation makes a new incarnation.
func (db *DB) NewIncarnation() (i ident.Incarnation) {
	db.Random(i[:])
	return i
}

// Commit writes a batch, tells Committed of it, and puts a refusal of the store into the words of the edge. A
// precondition that does not hold stays a *store.ConflictError.
func (db *DB) Commit(ctx context.Context, tenant string, b store.Batch) error {
	err := db.Store.Commit(ctx, tenant, b)
	if err == nil && db.Committed != nil {
		db.Committed(tenant, b)
	}
	return Worded(err)
}

// LostRace leaves out an error that only says that another writer came first, for work that is found and done again.
func LostRace(err error) error {
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return nil
	}
	return err
}

// Worded turns an error of the store into the one that the API answers: disk_full, too_many_open_files, store_stopped,
// store_damaged, outcome_unknown, store_unavailable or commit_too_large. It returns every other error as it is.
func Worded(err error) error {
	switch {
	case errors.Is(err, store.ErrNoSpace):
		return DiskFull()
	case errors.Is(err, store.ErrNoDescriptors):
		return fault.Errorf(fault.Unavailable, "too_many_open_files",
			"the server has no file descriptor left; nothing was stored, reading goes on; try again")
	case errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrClosed):
		return fault.Errorf(fault.Unavailable, "store_stopped",
			"the store has stopped writing; the operator must restart the server")
	case errors.Is(err, store.ErrDamaged):
		return fault.Errorf(fault.Unavailable, "store_damaged", "files of the store are damaged and acknowledged "+
			"writes are lost: reading goes on, and the operator must run `mneme repair` before anything is stored")
	case errors.Is(err, store.ErrUnknown):
		return fault.Errorf(fault.Unavailable, "outcome_unknown", "the database was lost while this was being stored, "+
			"so it may or may not be there; send it again with the same Idempotency-Key, or look before you repeat it")
	case errors.Is(err, store.ErrUnavailable):
		return fault.Errorf(fault.Unavailable, "store_unavailable",
			"the database is away or too busy; nothing was stored; try again")
	case errors.Is(err, store.ErrTooLarge):
		return fault.Errorf(fault.TooLarge, "commit_too_large",
			"this is more than one commit can hold (%d bytes); split it", store.MaxBatch)
	}
	return err
}

// DiskFull refuses to write because the disk is nearly full.
func DiskFull() error {
	return fault.Errorf(fault.NoSpace, "disk_full",
		"the server's disk is nearly full; nothing was stored, reading goes on")
}

// locks are striped by name, so that their number is bounded: two names may share one.
type locks struct {
	seed    maphash.Seed
	stripes [256]chan struct{}
}

func newLocks() *locks {
	l := &locks{seed: maphash.MakeSeed()}
	for i := range l.stripes {
		l.stripes[i] = make(chan struct{}, 1)
	}
	return l
}

// Lock makes this process's writers to the thing of a name queue up, so that they rarely have to retry. It answers the
// error of ctx where that ends first.
func (db *DB) Lock(ctx context.Context, name string) (unlock func(), err error) {
	lock := db.locks.stripes[maphash.String(db.locks.seed, name)%uint64(len(db.locks.stripes))]
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	default:
	}
	defer admission.Pause(ctx)()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
