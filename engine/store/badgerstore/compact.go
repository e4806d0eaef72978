package badgerstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Compact rewrites the files of the loose or of the synced keys so that they contain nothing that was deleted or
// overwritten before the call. Reads and writes continue, but it waits for reads that began before it, up to a
// minute. It needs about as much free space as these files take. After an error, files are as valid as before, and
// may still contain deleted data.
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
	if err := s.database(loose).compact(ctx); err != nil {
		return fmt.Errorf("compacting: %w", err)
	}
	return nil
}

// Room returns store.ErrNoSpace if Commit would return that now.
func (s *Store) Room() error {
	s.main.writing.Lock()
	defer s.main.writing.Unlock()
	s.main.space.look()
	return s.main.space.last.write
}

func (d *database) compact(ctx context.Context) (err error) {
	defer recoverDamage(&err)
	lsm, _ := d.db.Size()
	if free, err := d.space.free(); err != nil || free < d.space.reserve+uint64(lsm) {
		return errors.Join(store.ErrNoSpace, err)
	}
	// If all data is in level 0, Flatten does not compact it until there are enough tables for Badger to compact the
	// level itself. Each rotation adds one.
	for range d.db.Opts().NumLevelZeroTables + 2 {
		flushing, err := d.rotate()
		if err != nil {
			return err
		}
		if err := flushed(ctx, flushing); err != nil {
			return err
		}
		if err := d.db.Flatten(2); err != nil {
			return err
		}
		if d.db.Levels()[0].NumTables == 0 {
			return nil
		}
	}
	return errors.New("tables are left on level 0")
}
