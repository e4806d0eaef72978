package badgerstore

import (
	"context"
	"reflect"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/ristretto/v2/z"
)

// Badger builds tables in memory, and keeps the buffers of up to eight tables for the next ones. The buffers of a
// written memtable take four times its size. Any table may get them next, and they never shrink, so without release
// up to eight tables hold as much while compactions run.

const (
	// builderKept is the size of a table's buffers, in bytes, up to which they are kept for further tables.
	builderKept = 8 << 20
	// builderInterval is the interval at which larger ones are released.
	builderInterval = time.Second
	// builderPool is the number of tables whose buffers Badger keeps.
	builderPool = 8
	// builderSmallest is less than what Badger allocates for a table.
	builderSmallest = 1 << 10
)

// builders returns Badger's pool of buffers, or nil if a new version of Badger has moved it, which TestBuilders
// detects.
func builders(db *badger.DB) *z.AllocatorPool {
	v := reflect.ValueOf(db).Elem().FieldByName("allocPool")
	if !v.IsValid() || v.Type() != reflect.TypeFor[*z.AllocatorPool]() {
		return nil
	}
	return (*z.AllocatorPool)(v.UnsafePointer())
}

// releaseBuilders releases what pool, which may be nil, need not keep until ctx ends. It must end before Badger is
// closed.
func releaseBuilders(ctx context.Context, pool *z.AllocatorPool) {
	tick := time.NewTicker(builderInterval)
	defer tick.Stop()
	for pool != nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			trimBuilders(pool)
		}
	}
}

// trimBuilders releases large buffers, and those of one table of any size, so that an idle store keeps none.
func trimBuilders(pool *z.AllocatorPool) {
	for i := range builderPool {
		// An empty pool makes new buffers of the requested size.
		switch a := pool.Get(builderSmallest/2, "release"); {
		case a.Allocated() < builderSmallest:
			a.Release()
			return
		case i == 0 || a.Allocated() > builderKept:
			a.Release()
		default:
			pool.Return(a)
		}
	}
}
