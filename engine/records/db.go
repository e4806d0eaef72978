// Package records defines what the engine stores, and how to read and write it.
//
// kinds.go is the table of all kinds of records. A kind makes keys of typed parts and splits keys into them, so that
// no other package knows the layout of a key:
//
//	key := records.Session.Key(project, "s-1")
//	project, id, ok := records.Session.Split(key)
//	all := records.Session.Under(project)
//
// Five functions read. Their errors name the kind of a damaged record:
//
//	Get       one record, decoded from JSON; nil if there is none
//	GetTx     the same inside a change, which then succeeds only if the record has not changed meanwhile
//	Each      all records of a range, decoded
//	DB.Scan   all records of a range, as they are stored
//	ListPage  one page of a listing, with the cursor of the next
//
// Update writes. It runs a function that collects a change in a Tx, and commits the change atomically; if another
// writer was faster, it runs the function again. Correctness needs no locks, because every record that a Tx has read
// is a precondition of its commit. Staging writes what is too large for one commit where nobody sees it, and one last
// commit makes it visible.
package records

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"io"
	"log/slog"
	"syscall"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// DB is a store together with a clock, ids, a log and locks.
type DB struct {
	Store   store.Store
	Log     *slog.Logger
	Clock   func() time.Time // the system's, to measure durations; for timestamps, see Now
	Entropy io.Reader        // the source of ids and keys
	Alone   bool             // no other process uses the store
	Removed removals
	// Committed, if set, is called after each commit.
	Committed func(tenant string, b store.Batch)
	locks     *locks
	time      timekeeper
}

// New returns a DB for a sealed store. The DB's values may have any length. If log is nil, nothing is logged; if
// clock or entropy is nil, the system's is used. alone says that no other process uses the store.
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

// Random fills b from the source of ids. It panics if that source fails, because no safe alternative exists.
func (db *DB) Random(b []byte) {
	if _, err := io.ReadFull(db.Entropy, b); err != nil {
		panic("reading random bytes: " + err.Error())
	}
}

// NewID returns an id: the prefix and n random bytes as text.
func (db *DB) NewID(prefix string, n int) string {
	b := make([]byte, n)
	db.Random(b)
	return prefix + ident.Alphabet.EncodeToString(b)
}

// NewIncarnation returns a new incarnation.
func (db *DB) NewIncarnation() (i ident.Incarnation) {
	db.Random(i[:])
	return i
}

// Commit writes a batch, calls Committed, and converts errors of the store as Worded does. A precondition that does
// not hold remains a *store.ConflictError.
func (db *DB) Commit(ctx context.Context, tenant string, b store.Batch) error {
	err := db.Store.Commit(ctx, tenant, b)
	if err == nil && db.Committed != nil {
		db.Committed(tenant, b)
	}
	return Worded(err)
}

// LostRace returns nil for an error that only says that another writer was faster, and err otherwise. It is for work
// that is found and done again.
func LostRace(err error) error {
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return nil
	}
	return err
}

// Worded converts an error of the store to the one that the API returns: disk_full, too_many_open_files,
// store_stopped, store_damaged, outcome_unknown, store_unavailable or commit_too_large. It returns any other error
// unchanged.
func Worded(err error) error {
	switch {
	case errors.Is(err, store.ErrNoSpace):
		return DiskFull()
	case errors.Is(err, store.ErrNoDescriptors), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fault.Errorf(fault.Unavailable, "too_many_open_files",
			"the server is out of file descriptors; nothing was stored, reads still work; try again")
	case errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrClosed):
		return fault.Errorf(fault.Unavailable, "store_stopped",
			"the store has stopped writing; the operator must restart the server")
	case errors.Is(err, store.ErrDamaged):
		return fault.Errorf(fault.Unavailable, "store_damaged", "files of the store are damaged and acknowledged "+
			"writes are lost: reads still work, but nothing can be stored until the operator runs `mneme repair`")
	case errors.Is(err, store.ErrUnknown):
		return fault.Errorf(fault.Unavailable, "outcome_unknown", "the connection to the database broke during this commit, "+
			"which may or may not have happened; send it again with the same Idempotency-Key, or check before you repeat it")
	case errors.Is(err, store.ErrUnavailable):
		return fault.Errorf(fault.Unavailable, "store_unavailable",
			"the database is unreachable or too busy; nothing was stored; try again")
	case errors.Is(err, store.ErrTooLarge):
		return fault.Errorf(fault.TooLarge, "commit_too_large",
			"this is more than one commit can hold (%d bytes); split it", store.MaxBatch)
	}
	return err
}

// DiskFull returns the error for a write that is refused because the disk is nearly full.
func DiskFull() error {
	return fault.Errorf(fault.NoSpace, "disk_full",
		"the server's disk is nearly full; nothing was stored, reads still work")
}

// locks are striped by name to limit their number: two names may share one.
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

// Lock makes this process's writers to the same name wait for each other, so that they rarely have to retry. It
// returns the error of ctx if ctx ends first.
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
