// Package badgerstore is the default implementation of store.Store: two Badger databases in one folder, `main`, which
// is synced before a commit is acknowledged, and `loose`, which is only written. For each, one committer combines all
// waiting batches into one transaction, because Badger syncs every transaction.
//
// Badger may read a damaged file as missing keys or changed bytes without an error, so read through store.Seal.
package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// DefaultReserve is the free space, in bytes, below which writes are refused. For both databases, it is enough for
// the memtables that are not yet written to tables, and for one more table.
const DefaultReserve = 2 * (waitingMemtables + 1) * memtableSize

// opening is the divisor of the reserve that must be free to open a folder: creating memory-mapped files on a disk
// without a free block kills the process.
const opening = 32

// ErrLocked is returned by Open if another process, or another Store of this one, has the folder open.
var ErrLocked = errors.New("data folder is in use by another process")

// Options configures a store. Only Dir is required.
type Options struct {
	// Dir is the data folder. If it does not exist, it is created, readable only by its owner.
	Dir string
	// ReserveBytes is the free space below which Commit returns store.ErrNoSpace; 0 means DefaultReserve. Batches
	// that only delete are accepted down to half of it.
	ReserveBytes uint64
	// FreeSpace returns the number of free bytes for the data folder; nil asks the file system. It is called once for
	// each transaction.
	FreeSpace func(dir string) (uint64, error)
	// Memory is the number of bytes that the process may use; with 0, or 2 GiB and more, caches have their full size.
	Memory int64
	// Uncompressed disables the compression of tables, so that their content is visible in the files.
	Uncompressed bool
	// Repair recreates the manifest of a refused database if that loses nothing, and accepts commits although
	// acknowledged ones are lost. The caller must handle the losses before it calls Repaired.
	Repair bool
	// Traces are names in Dir of files that only exist if there was a store.
	Traces []string
	// Now returns the time for findings; nil uses the system's.
	Now func() time.Time
	// Logger is the log of Badger and the store; nil discards it.
	Logger *slog.Logger
}

// Store implements store.Store. Use Open to create one.
type Store struct {
	main, loose *database
	failure     *failure
	ledger      *ledger

	// life is held by every running call, so that Close never unmaps a file that is being read.
	life   sync.RWMutex
	closed bool
}

var _ store.Store = (*Store)(nil)

// Open opens the store in a folder, or creates one. It returns ErrLocked if the folder is in use.
func Open(o Options) (*Store, error) {
	return openTuned(o, func(b badger.Options) badger.Options { return b })
}

// openTuned is Open with a function that changes Badger's options.
func openTuned(o Options, tuned func(badger.Options) badger.Options) (*Store, error) {
	if o.FreeSpace == nil {
		o.FreeSpace = freeSpace
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := makeFolder(o.Dir); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{failure: &failure{log: o.Logger}}
	guard := func() (uint64, error) { return o.FreeSpace(o.Dir) }
	space := space{free: guard, reserve: cmp.Or(o.ReserveBytes, DefaultReserve)}

	if free, err := guard(); err == nil && free < space.reserve/opening {
		return nil, fmt.Errorf("%w: %d bytes are free, opening takes %d", store.ErrNoSpace, free, space.reserve/opening)
	}
	var err error
	if s.ledger, err = openLedger(o.Dir, o.Now, o.Logger); err != nil {
		return nil, fmt.Errorf("reading what was found damaged: %w", err)
	}
	if err := checkOwner(o.Dir); err != nil {
		return nil, err
	}
	parts := [2]badger.Options{tuned(o.main()), tuned(o.loose())}
	found, made, err := s.examine(parts, o)
	if err != nil {
		return nil, err
	}
	opened := make(chan struct{})
	if s.main, err = s.openDatabase(found[0], nil, o, space, opened); err != nil {
		return nil, fmt.Errorf("opening the main database: %w", err)
	}
	s.loose, err = s.openDatabase(found[1], s.main, o, space, opened)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the loose database: %w", err), s.main.close())
	}
	if err := s.finishOpening(o, made); err != nil {
		return nil, errors.Join(err, s.loose.close(), s.main.close())
	}
	if !o.Repair {
		s.main.damage = s.ledger.lost()
		s.main.doubtful, s.loose.doubtful = s.ledger.spans("main"), s.ledger.spans("loose")
	}
	close(opened)
	return s, nil
}

// examine runs all checks of both databases, which are closed, and then repairs what can be repaired. made says that
// the store was opened before.
func (s *Store) examine(parts [2]badger.Options, o Options) (found [2]*checkup, made bool, err error) {
	identity, err := checkIdentity(o.Dir)
	if err != nil {
		return found, false, err
	}
	made = identity != nil
	var locks []*os.File
	defer func() {
		// Badger takes these locks itself when it opens the folders, so they must be free then.
		for _, lock := range locks {
			_ = lock.Close()
		}
	}()
	for _, b := range parts {
		lock, err := lockFolder(b.Dir)
		switch {
		case err == nil:
			locks = append(locks, lock)
		case !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrNotExist):
			return found, false, err
		}
	}
	if !made {
		if err := checkTraces(o); err != nil {
			return found, false, err
		}
	}
	for i, b := range parts {
		found[i], err = inspect(b, s.ledger, o.Logger, made)
		if _, refused := errors.AsType[*RefusedError](err); refused && o.Repair {
			if err = found[i].rebuild(err); err == nil {
				found[i], err = inspect(b, s.ledger, o.Logger, made)
			}
		}
		if err != nil {
			return found, false, err
		}
	}
	if !made {
		if err := begin(o.Dir); err != nil {
			return found, false, err
		}
	}
	later := !o.Repair && len(s.ledger.list) == 0
	for _, c := range found {
		if err := c.correct(later); err != nil {
			return found, false, err
		}
	}
	return found, made, nil
}

// checkTraces refuses a folder without a store that contains traces of one.
func checkTraces(o Options) error {
	if exists(filepath.Join(o.Dir, beginningName)) || Exists(o.Dir) {
		return nil
	}
	for _, name := range append([]string{filepath.Join("loose", badger.ManifestFilename)}, o.Traces...) {
		if exists(filepath.Join(o.Dir, name)) {
			return &RefusedError{File: "main", What: fmt.Sprintf("the database is missing, but %s exists", name),
				Remedy: fmt.Sprintf("restore a backup, or remove %s to begin with an empty store", name)}
		}
	}
	return nil
}

// finishOpening compares the databases, and gives a new store its identity.
func (s *Store) finishOpening(o Options, made bool) error {
	if err := s.compareDatabases(); err != nil {
		return err
	}
	if !made {
		if _, err := identify(o.Dir, o.Now()); err != nil {
			return fmt.Errorf("writing what the folder is: %w", err)
		}
	}
	if err := syncFolder(o.Dir); err != nil {
		return fmt.Errorf("syncing the data folder: %w", err)
	}
	return nil
}

// compareDatabases refuses a loose database that refers to commits that main does not have: they were copied at
// different times. Known losses of main are not reported again.
func (s *Store) compareDatabases() error {
	if s.ledger.lost() != nil {
		return nil
	}
	seen, err := s.loose.mainSeen()
	if err != nil {
		return err
	}
	if newest := s.main.snapshots.current(); seen > newest {
		return &RefusedError{File: "loose", What: fmt.Sprintf("it is newer than main, which ends with commit %d, while "+
			"loose knows of commit %d: the folder was copied while a server ran, or main was set back", newest, seen),
			Remedy: "copy the folder while no server runs, or restore a backup"}
	}
	return nil
}

// openDatabase opens a database that passed its checks and starts its committer. main is nil for the main database.
// Tables that were not read yet are read once the store is open.
func (s *Store) openDatabase(c *checkup, main *database, o Options, sp space, opened <-chan struct{}) (*database, error) {
	db, err := openBadger(c.o, o.Logger)
	if err != nil {
		return nil, err
	}
	if err := c.compare(db.MaxVersion()); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	d, err := newDatabase(db, o.cache(valuesSize), s.failure, sp)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if main != nil {
		d.main = main.snapshots
	}
	d.lister = &lister{o: db.Opts(), log: o.Logger}
	if err := d.lister.update(); err != nil {
		return nil, errors.Join(err, d.log.close(), d.committed.file.Close(), db.Close())
	}
	go d.run()
	var reading context.Context
	reading, d.closing = context.WithCancel(context.Background())
	go func() { d.read <- d.readLater(reading, opened, c.unread) }()
	d.watchers.Go(func() { d.lister.run(reading) })
	d.watchers.Go(func() { releaseBuilders(reading, builders(db)) })
	return d, nil
}

// Findings returns the damage of files that was found since the folder was last repaired.
func (s *Store) Findings() []Finding { return slices.Clone(s.ledger.list) }

// Repaired says that the findings have been handled: they are archived, and commits are accepted again.
func (s *Store) Repaired() error {
	if _, err := s.loose.rotate(); err != nil { // so that its newest commit names the current version of main
		return err
	}
	for _, d := range []*database{s.main, s.loose} {
		if err := d.committed.write(d.snapshots.current()); err != nil {
			return err
		}
	}
	return s.ledger.close()
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if err := b.Check(tenant); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	if s.failure.Err() != nil {
		return store.ErrFailed
	}
	if err := s.database(b.IsLoose()).damaged(); err != nil {
		return err
	}
	return s.database(b.IsLoose()).submit(ctx, newRequest(tenant, b))
}

// Failed returns nil while commits are accepted. After a commit with unknown outcome it wraps store.ErrFailed with
// the cause, which is for the operator because it may name files. If files are damaged it returns store.ErrDamaged,
// and if no file descriptor is left, store.ErrNoDescriptors.
func (s *Store) Failed() error {
	return cmp.Or(s.failure.Err(), s.main.damaged(), s.loose.damaged(), s.main.log.spares.err(), s.loose.log.spares.err())
}

// Tables returns the number of open table files, or false after Close.
func (s *Store) Tables() (n int, ok bool) {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return 0, false
	}
	for _, d := range [...]*database{s.main, s.loose} {
		for _, level := range d.db.Levels() {
			n += level.NumTables
		}
	}
	return n, true
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.main.close(), s.loose.close())
}

func (s *Store) database(loose bool) *database {
	if loose {
		return s.loose
	}
	return s.main
}

// openBadger opens Badger in managed mode: there is one committer, so it counts the versions itself, and a read uses
// the last committed one, whereas Badger's own would wait for a commit that is being synced. If Badger panics because
// of damage, openBadger returns an error.
func openBadger(o badger.Options, log *slog.Logger) (db *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged files: %v", p)
		}
	}()
	db, err = badger.OpenManaged(o.WithLogger(badgerLog{log}))
	// Badger's errors hide their cause from errors.Is.
	if err != nil && strings.Contains(err.Error(), "Cannot acquire directory lock") {
		return nil, ErrLocked
	}
	return db, err
}

// closeWait is the interval at which a database that is being closed checks whether it can be.
const closeWait = 100 * time.Millisecond

// closeBadger closes Badger, unless the disk is full: Badger would wait for space for its memtables, whose content is
// also in the log, from which the next process reads it. It would wait for ever if its folder was removed.
func (d *database) closeBadger() error {
	before := starved.Load()
	closed := make(chan error, 1)
	go func() { closed <- d.db.Close() }()
	tick := time.NewTicker(closeWait)
	defer tick.Stop()
	for {
		select {
		case err := <-closed:
			return err
		case <-tick.C:
			if starved.Load() > before {
				return fmt.Errorf("%w: what is in memory stays in the log only", store.ErrNoSpace)
			}
			if _, err := os.Stat(d.db.Opts().Dir); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("closing a store whose folder is gone: %w", err)
			}
		}
	}
}

func makeFolder(dir string) error {
	if dir == "" {
		return errors.New("no data folder given")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

// syncFolder makes changes to the names in a folder durable; Badger only does so for its own folders.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
