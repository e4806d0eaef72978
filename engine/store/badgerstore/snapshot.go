package badgerstore

import (
	"bytes"
	"context"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

var _ store.Snapshotter = (*Store)(nil)

// Snapshot implements store.Snapshotter. Badger keeps the versions that it shows until it ends, so writers continue.
// Close waits for it.
func (s *Store) Snapshot(ctx context.Context, fn func(tenant string, it store.Item) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	// Loose records refer to synced ones that existed before, never the other way round.
	loose := newWalk(s.loose)
	defer loose.close()
	main := newWalk(s.main)
	defer main.close()
	for n := 0; ; n++ {
		next, more := earlier(main, loose)
		if !more {
			break
		}
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		tenant, it, err := next.item()
		if err == nil {
			err = fn(tenant, it)
		}
		if err != nil {
			return err
		}
		next.step((*badger.Iterator).Next)
	}
	if main.err != nil {
		return main.err
	}
	return loose.err
}

// walk walks over one database at one version.
type walk struct {
	database *database
	snapshot *snapshot
	txn      *badger.Txn
	it       *badger.Iterator
	err      error // the error that ended it early

	tenant string
	value  []byte
}

func newWalk(d *database) *walk {
	w := &walk{database: d, snapshot: d.snapshots.pin()}
	w.txn = d.db.NewTransactionAt(w.snapshot.version, false)
	w.begin()
	return w
}

func (w *walk) begin() {
	defer recoverDamage(&w.err)
	w.it = w.txn.NewIterator(badger.IteratorOptions{PrefetchValues: false})
	w.it.Seek([]byte{lengthBase}) // earlier keys belong to the store itself
}

func (w *walk) close() {
	if w.it != nil {
		w.it.Close()
	}
	discard(w.txn)
	w.database.snapshots.unpin(w.snapshot)
}

func (w *walk) step(move func(*badger.Iterator)) {
	defer recoverDamage(&w.err)
	move(w.it)
}

func (w *walk) valid() bool { return w.err == nil && w.it.Valid() }

// earlier returns the walk whose next key comes first.
func earlier(a, b *walk) (next *walk, more bool) {
	switch {
	case !a.valid():
		return b, b.valid()
	case !b.valid() || bytes.Compare(a.it.Item().Key(), b.it.Item().Key()) < 0:
		return a, true
	}
	return b, true
}

// item reads the current record. Its value is valid until the next one is read.
func (w *walk) item() (tenant string, it store.Item, err error) {
	defer recoverDamage(&err)
	key := w.it.Item().Key()
	n := int(key[0]) - lengthBase
	if n < 0 || len(key) < 1+n {
		return "", it, errUnreadable
	}
	if string(key[1:1+n]) != w.tenant {
		w.tenant = string(key[1 : 1+n])
	}
	if w.value, err = w.it.Item().ValueCopy(w.value); err != nil {
		return "", it, errUnreadable
	}
	return w.tenant, store.Item{Key: key[1+n:], Value: w.value}, nil
}
