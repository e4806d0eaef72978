package badgerstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// flushMark is a key that no tenant has, see lengthBase. Badger flushes its memtables when it is told to drop a prefix
// that is in use, and offers no other way.
var flushMark = []byte{lengthBase - 1, 'f', 'l', 'u', 's', 'h'}

// Compact rewrites the files of one sort of keys so that they hold nothing that was deleted or overwritten before the
// call and that no running read needs. Writes wait while memory is flushed, up to a second or so; the rest runs beside
// them. It needs about as much free space as these files take.
func (s *Store) Compact(ctx context.Context, loose bool) error {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.failure.Err() != nil {
		return store.ErrFailed
	}
	if err := s.database(loose).damaged(); err != nil {
		return err
	}
	if err := s.database(loose).compact(); err != nil {
		return fmt.Errorf("compacting: %w", err)
	}
	return nil
}

// Room is store.ErrNoSpace where Commit would answer that now.
func (s *Store) Room() error {
	s.main.writing.Lock()
	defer s.main.writing.Unlock()
	s.main.space.look()
	return s.main.space.last.write
}

func (d *database) compact() (err error) {
	defer recoverDamage(&err)
	lsm, _ := d.db.Size()
	if free, err := d.space.free(); err != nil || free < d.space.reserve+uint64(lsm) {
		return errors.Join(store.ErrNoSpace, err)
	}
	if err := d.flush(); err != nil {
		return err
	}
	return d.db.Flatten(2)
}

// flush writes what is in memory, and with it in the write-ahead log, to tables.
func (d *database) flush() error {
	d.writing.Lock()
	defer d.writing.Unlock()
	if err := d.log.ready(2 * ownLogged); err != nil {
		return err
	}
	version := d.snapshots.current()
	txn := d.db.NewTransactionAt(version, true)
	defer txn.Discard()
	if err := txn.Set(flushMark, nil); err != nil {
		return err
	}
	if err := d.applyNext(txn, version, ownLogged, 1, nil); err != nil {
		return err
	}
	if err := d.log.ready(0); err != nil { // The commit may have begun the next log, and so does what follows.
		return err
	}
	if err := d.db.DropPrefix(flushMark); err != nil {
		return err
	}
	return d.log.look()
}
