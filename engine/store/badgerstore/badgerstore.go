// Package badgerstore is the default backend of the store port: two Badger databases in one folder, `main` synced
// before a commit is acknowledged and `loose` only written. One committer for each folds every waiting batch into one
// transaction, because Badger syncs each transaction alone.
//
// Badger may answer a damaged file with missing keys or other bytes and no error, so what stands on it is read
// through store.Seal.
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

// DefaultReserve is the free space below which writes are refused, in bytes. It holds, for both databases, what is in
// their memtables and is still to be written to tables, and one table more.
const DefaultReserve = 2 * (waitingMemtables + 1) * memtableSize

// opening is the part of the reserve that must be free to open a folder: making files of memory maps on a disk without
// a free block kills the process.
const opening = 32

// ErrLocked is answered by Open where another process, or another Store of this one, has the folder open.
var ErrLocked = errors.New("data folder is in use by another process")

// Options say where and how a store is kept. Only Dir is required.
type Options struct {
	// Dir is the data folder. It is made, readable to its owner alone, where it does not exist.
	Dir string
	// ReserveBytes is the free space below which Commit answers store.ErrNoSpace; 0 means DefaultReserve. Batches that
	// only delete are taken down to half of it.
	ReserveBytes uint64
	// FreeSpace tells how many bytes are free for the data folder; nil asks the file system. It is asked once for
	// each transaction.
	FreeSpace func(dir string) (uint64, error)
	// Memory is how many bytes the process may use; 0 or 2 GiB and more: caches have their full size.
	Memory int64
	// Uncompressed keeps tables as they are, which makes what is in them visible to whoever looks into the files.
	Uncompressed bool
	// Repair lets commits be written though acknowledged ones are lost, which whoever opens the folder so must have
	// dealt with by the time of Repaired.
	Repair bool
	// Now is the time that goes with findings; nil asks the system.
	Now func() time.Time
	// Logger takes what Badger and the store have to say; nil discards it.
	Logger *slog.Logger
}

// Store implements store.Store. Make one with Open.
type Store struct {
	main, loose *database
	failure     *failure
	ledger      *ledger

	// life is held by every running call, so that Close never unmaps a file under a reader.
	life   sync.RWMutex
	closed bool
}

var _ store.Store = (*Store)(nil)

// Open opens the store in a folder, or makes one. ErrLocked says that the folder is in use.
func Open(o Options) (*Store, error) {
	return openTuned(o, func(b badger.Options) badger.Options { return b })
}

// openTuned is Open with a last word about Badger's options.
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
	opened := make(chan struct{})
	if s.main, err = s.openDatabase(tuned(o.main()), o, space, opened); err != nil {
		return nil, fmt.Errorf("opening the main database: %w", err)
	}
	s.loose, err = s.openDatabase(tuned(o.loose()), o, space, opened)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the loose database: %w", err), s.main.close())
	}
	if err := syncFolder(o.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("syncing the data folder: %w", err), s.main.close(), s.loose.close())
	}
	if !o.Repair {
		s.main.damage = s.ledger.lost()
		s.main.doubtful, s.loose.doubtful = s.ledger.spans("main"), s.ledger.spans("loose")
	}
	close(opened)
	return s, nil
}

// openDatabase looks for damage, opens a database and starts its committer. Tables that are not read yet are read once
// the store is opened.
func (s *Store) openDatabase(b badger.Options, o Options, sp space, opened <-chan struct{}) (*database, error) {
	found, err := examine(b, s.ledger, !o.Repair && len(s.ledger.list) == 0)
	if err != nil {
		return nil, err
	}
	db, err := openBadger(b, o.Logger)
	if err != nil {
		return nil, err
	}
	if err := found.compare(db.MaxVersion()); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	d, err := newDatabase(db, o.cache(valuesSize), s.failure, sp)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	go d.run()
	var reading context.Context
	reading, d.closing = context.WithCancel(context.Background())
	go func() { d.read <- d.readLater(reading, opened, found.unread) }()
	return d, nil
}

// Findings are the damages of files that were found since the folder was repaired last.
func (s *Store) Findings() []Finding { return slices.Clone(s.ledger.list) }

// Repaired says that the findings have been dealt with: they are put aside, and commits are taken again.
func (s *Store) Repaired() error {
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

// Failed returns nil while commits are accepted. After a commit of unknown outcome it wraps store.ErrFailed with the
// cause, which is for the operator because it may name files. If files are damaged it is store.ErrDamaged, and if no file
// descriptor is left, store.ErrNoDescriptors.
func (s *Store) Failed() error {
	return cmp.Or(s.failure.Err(), s.main.damaged(), s.loose.damaged(), s.main.log.spares.err(), s.loose.log.spares.err())
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

// openBadger opens in managed mode: there is one committer, so it counts the versions itself, and a read takes the
// last committed one instead of waiting, as Badger's own would, for a commit that is being synced. Damage that Badger
// answers with a panic comes back as an error.
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

// closeWait is how often a database that is being closed looks whether it can be.
const closeWait = 100 * time.Millisecond

// closeBadger closes Badger, unless the disk is full: it would wait until there is room for what is in memory, which is
// in the log, too, and is read from there by the next process. It would wait for ever where its folder was removed.
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

// syncFolder makes the names in a folder durable; Badger does so only within its own.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
