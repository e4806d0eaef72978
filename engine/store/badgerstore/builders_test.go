package badgerstore

import (
	"testing"

	"github.com/dgraph-io/ristretto/v2/z"
)

// Badger's pool of buffers is where it was.
func TestBuilders(t *testing.T) {
	s := open(t, t.TempDir())
	for name, d := range map[string]*database{"main": s.main, "loose": s.loose} {
		if builders(d.db) == nil {
			t.Errorf("this version of Badger has no pool of buffers where it was: %s", name)
		}
	}
}

// A pool keeps no large buffers, and when it is not used, none at all. It may keep fewer, because it releases some
// itself while nothing uses it.
func TestTrimBuilders(t *testing.T) {
	pool := z.NewAllocatorPool(builderPool)
	defer pool.Release()
	// kept returns the sizes of the pool's buffers, which it takes out.
	kept := func() (sizes []uint64) {
		for {
			a := pool.Get(1, "test")
			size := a.Allocated()
			a.Release()
			if size < builderSmallest {
				return sizes
			}
			sizes = append(sizes, size)
		}
	}
	fill := func(sizes ...int) {
		t.Helper()
		kept()
		var all []*z.Allocator
		for _, size := range sizes {
			all = append(all, pool.Get(size, "test"))
		}
		for _, a := range all {
			pool.Return(a)
		}
	}
	fill(4<<20, 64<<20, 2<<20, 128<<20, 8<<20, 4<<20, 4<<20, 32<<20)
	trimBuilders(pool)
	sizes := kept()
	if len(sizes) > 4 {
		t.Errorf("the 5 small buffers are kept, and none of them was released: %v", sizes)
	}
	for _, size := range sizes {
		if size > builderKept {
			t.Errorf("%d bytes are kept", size)
		}
	}
	fill(4<<20, 4<<20, 4<<20)
	for range 3 {
		trimBuilders(pool)
	}
	if sizes := kept(); len(sizes) > 0 {
		t.Errorf("an unused pool keeps %v", sizes)
	}
}
