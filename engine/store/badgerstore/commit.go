package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/cache"
)

// queueLength is the number of batches that may wait while another is committed; further callers wait to queue.
const queueLength = 1024

// database is one Badger database. One transaction is committed at a time: by a caller who finds none running, or
// else by the committer. Either includes all waiting batches.
type database struct {
	db        *badger.DB
	synced    bool // whether commits are synced before they are acknowledged
	snapshots *snapshots
	cache     *cache.Cache
	failure   *failure
	space     space
	log       *logBlocks
	committed *committedFile
	damage    error  // if set, commits fail with it
	doubtful  []Span // keys whose reads fail
	failed    int64  // failed blocks when the database was opened
	told      sync.Once
	queue     chan *request
	queued    chan struct{} // holds a value while the committer must look at the queue
	stopped   chan struct{}
	closing   context.CancelFunc // ends readLater and the watchers
	read      chan bool          // the result of readLater
	lister    *lister
	watchers  sync.WaitGroup // the lister and releaseBuilders
	main      *snapshots     // the main database's; nil if this is the main database
	// writing is held while a transaction is built and committed, and by Compact while Badger must not get any.
	writing sync.Mutex
	group   []*request    // the requests of the transaction, while writing is held
	written []store.Batch // those of its batches that are in the transaction
	// apply commits a transaction at a version. Tests replace it to delay a commit or make it fail.
	apply func(txn *badger.Txn, version uint64) error
}

func newDatabase(db *badger.DB, cached int64, f *failure, s space) (_ *database, err error) {
	version := db.MaxVersion()
	db.SetDiscardTs(version)
	o := db.Opts()
	log, err := openLogBlocks(o.Dir, 2*o.MemTableSize)
	if err != nil {
		return nil, err
	}
	committed, err := openCommitted(o.Dir, version)
	if err != nil {
		return nil, errors.Join(err, log.close())
	}
	return &database{
		db:        db,
		synced:    o.SyncWrites,
		log:       log,
		committed: committed,
		snapshots: newSnapshots(version),
		cache:     cache.New(version, int(cached)),
		failure:   f,
		failed:    failedBlocks.Load(),
		space:     s,
		queue:     make(chan *request, queueLength),
		queued:    make(chan struct{}, 1),
		stopped:   make(chan struct{}),
		read:      make(chan bool, 1),
		apply:     func(txn *badger.Txn, version uint64) error { return txn.CommitAt(version, nil) },
	}, nil
}

// close ends the committer. No submit may run or follow. If there was no failure, it marks the database as cleanly
// closed.
func (d *database) close() error {
	d.closing()
	close(d.queued)
	<-d.stopped
	d.watchers.Wait()
	sound := <-d.read && d.damaged() == nil && d.failure.Err() == nil
	if err := errors.Join(d.closeBadger(), d.log.close(), d.committed.file.Close()); err != nil {
		return err
	}
	if err := d.lister.update(); err != nil || !sound {
		return err
	}
	return markClean(d.db.Opts())
}

// run is the committer: it commits the batches that arrived during other commits.
func (d *database) run() {
	defer close(d.stopped)
	for range d.queued {
		d.writing.Lock()
		d.commit()
		d.writing.Unlock()
	}
}

// commit commits all waiting batches in one transaction, or in several if they do not fit, and sends the results. The
// caller must hold writing.
func (d *database) commit() {
	var left *request
	for {
		if d.group, left = d.gather(d.group[:0], left); len(d.group) == 0 {
			return
		}
		outcomes := d.outcomes(d.group)
		for i, r := range d.group {
			r.done <- outcomes[i]
		}
		clear(d.group)
		if left == nil {
			return
		}
	}
}

// gather adds a request, which may be nil, and all waiting ones to a group, as far as they fit into one transaction.
// It returns the first that did not fit, which is taken from the queue too, or nil if the queue is empty.
func (d *database) gather(group []*request, first *request) ([]*request, *request) {
	var size, writes int64
	add := func(r *request) {
		group = append(group, r)
		size += r.size
		writes += r.writes()
	}
	if first != nil {
		add(first)
	}
	maxSize, maxWrites := d.limits()
	for {
		select {
		case r := <-d.queue:
			switch {
			case !r.take():
			case len(group) > 0 && (size+r.size > maxSize || writes+r.writes() > maxWrites):
				return group, r
			default:
				add(r)
			}
		default:
			return group, nil
		}
	}
}

// limits returns the maximum size, in bytes and in entries, of the requests of one transaction. This is the space in
// a memtable just before Badger replaces it; Badger ends the process if more is put into it.
func (d *database) limits() (size, writes int64) {
	const own = 128 // bytes for the mark and the end
	return d.db.MaxBatchSize() - own, d.db.MaxBatchCount() - ownWrites - 1
}

// outcomes builds one transaction from a group and commits it. It returns the result of each request; refused ones
// leave nothing in the transaction. The caller must hold writing.
func (d *database) outcomes(group []*request) (outcomes []error) {
	outcomes = make([]error, len(group))
	all := func(err error) []error {
		for i := range outcomes {
			if outcomes[i] == nil {
				outcomes[i] = err
			}
		}
		return outcomes
	}
	if d.failure.Err() != nil {
		return all(store.ErrFailed)
	}
	if err := d.damaged(); err != nil {
		return all(err)
	}
	var size, logged int64
	for _, r := range group {
		size += r.size
		logged += r.logged()
	}
	room := d.space.roomFor(size)
	if err := d.log.ready(logged+ownLogged, d.log.rotates()); err != nil {
		return all(err)
	}
	version := d.snapshots.current()
	txn := d.db.NewTransactionAt(version, true)
	defer txn.Discard()
	writes, written, hold := int64(0), d.written[:0], preconditions{}
	defer func() {
		clear(written)
		d.written = written
	}()
	maxSize, maxWrites := d.limits()
	for i, r := range group {
		if r.size > maxSize || r.writes() > maxWrites {
			outcomes[i] = store.ErrTooLarge
			continue
		}
		if outcomes[i] = room.allows(r.batch); outcomes[i] != nil {
			continue
		}
		if outcomes[i] = hold.check(txn, r.batch.Expect); outcomes[i] != nil {
			continue
		}
		if err := hold.write(txn, r.batch); err != nil { // The preconditions of later batches see these writes.
			return all(err)
		}
		writes += r.writes()
		written = append(written, r.batch)
	}
	if err := d.damaged(); err != nil {
		return all(err) // A precondition may hold only because a block could not be read.
	}
	if writes == 0 {
		return outcomes // Only transactions in the log get a version, so that a missing version indicates damage.
	}
	if err := d.applyNext(txn, version, logged, writes, written); err != nil {
		return all(err)
	}
	return outcomes
}

// ownLogged is the maximum size of a transaction's mark and end in the log, and ownWrites is their number.
const (
	ownLogged = 256
	ownWrites = 2
)

// applyNext commits a transaction, which holds the written batches and takes at most logged bytes of the log, as the
// one after version. If that fails, or Badger panics, the database accepts no more commits, because part of the
// transaction may be in the log.
func (d *database) applyNext(
	txn *badger.Txn, version uint64, logged, writes int64, written []store.Batch,
) (err error) {
	defer func() {
		if p := recover(); p != nil {
			cause, ok := p.(error)
			if !ok {
				cause = fmt.Errorf("%v", p)
			}
			err = fmt.Errorf("panic: %w\n%s", cause, debug.Stack())
		}
		if err != nil {
			d.failure.set(err)
			err = store.ErrFailed
		}
	}()
	if err := txn.Set(commitMark, d.mark(version)); err != nil {
		return err
	}
	if d.log.rotates() {
		d.log.spares.release() // ready takes them again before the next commit that may rotate
	}
	if err := d.apply(txn, version+1); err != nil {
		return err
	}
	if err := d.committed.write(version + 1); err != nil {
		// The commit is durable. An older number in the file only means that less damage can be detected.
		d.failure.log.Warn("the number of the newest commit was not noted", "error", err)
	}
	if err := d.log.wrote(logged+ownLogged, writes+ownWrites); err != nil {
		return err
	}
	d.cache.Commit(version+1, written)
	d.db.SetDiscardTs(d.snapshots.publish(version + 1))
	return nil
}

// preconditions are those that hold in a transaction, including the batches already in it: values by stored key, nil
// for an absent key. Most batches of a transaction expect the same records of a tenant and a project, so each is read
// once.
type preconditions map[string][]byte

// check checks what a batch expects.
func (p preconditions) check(txn *badger.Txn, expect []store.Expect) error {
	for i, e := range expect {
		value, known := p[string(e.Key)]
		holds := known && (value == nil) == (e.Value == nil) && bytes.Equal(value, e.Value)
		if !known {
			var err error
			if holds, err = expected(txn, e); err != nil {
				return err
			}
		}
		if !holds {
			return &store.ConflictError{Index: i}
		}
		if !known {
			p[string(e.Key)] = e.Value
		}
	}
	return nil
}

// expected reads a key and reports whether a precondition holds.
func expected(txn *badger.Txn, e store.Expect) (holds bool, err error) {
	defer recoverDamage(&err)
	item, err := txn.Get(e.Key)
	switch {
	case errors.Is(err, badger.ErrKeyNotFound):
		return e.Value == nil, nil
	case err != nil:
		return false, errUnreadable
	}
	err = item.Value(func(v []byte) error {
		holds = e.Value != nil && bytes.Equal(v, e.Value)
		return nil
	})
	if err != nil {
		return false, errUnreadable
	}
	return holds, nil
}

// write puts a batch into the transaction and forgets what held of the keys that it writes.
func (p preconditions) write(txn *badger.Txn, b store.Batch) error {
	for _, put := range b.Put {
		if err := txn.Set(put.Key, put.Value); err != nil {
			return fmt.Errorf("building a transaction: %w", err)
		}
		delete(p, string(put.Key))
	}
	for _, key := range b.Delete {
		if err := txn.Delete(key); err != nil {
			return fmt.Errorf("building a transaction: %w", err)
		}
		delete(p, string(key))
	}
	return nil
}

// failure is set once, by the first commit with unknown outcome. Part of that commit may be in the log, and a log is
// read only up to its first flaw: anything written after it could be lost.
type failure struct {
	log   *slog.Logger
	cause atomic.Pointer[error]
}

func (f *failure) set(cause error) {
	err := fmt.Errorf("%w: %w", store.ErrFailed, cause)
	if f.cause.CompareAndSwap(nil, &err) {
		f.log.Error("store stopped writing until the process is restarted", "cause", cause)
	}
}

// Err returns nil if there was no failure.
func (f *failure) Err() error {
	if err := f.cause.Load(); err != nil {
		return *err
	}
	return nil
}
