package badgerstore

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Caches grow with the memory up to their full size, and a store on a small machine takes the largest batch, too.
func TestTheStoreFitsTheMachine(t *testing.T) {
	full := Options{}.main()
	last := int64(0)
	for _, memory := range []int64{1, 64 << 20, 512 << 20, 1 << 30, 2<<30 - 1, 2 << 30, 1 << 62} {
		o := Options{Memory: memory}.main()
		if o.BlockCacheSize < last || o.BlockCacheSize < full.BlockCacheSize/8 || o.BlockCacheSize > full.BlockCacheSize {
			t.Errorf("with %d bytes of memory the cache of blocks has %d", memory, o.BlockCacheSize)
		}
		last = o.BlockCacheSize
	}
	if last != full.BlockCacheSize {
		t.Errorf("with ample memory the cache of blocks has %d", last)
	}
	s, err := Open(Options{Dir: t.TempDir(), Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for round := range 3 {
		var b store.Batch
		for left, n := store.MaxBatch-1<<10, 0; left > 0; n++ { // keys count, too
			size := min(left, store.MaxValue)
			b.Put = append(b.Put, store.Pair{Key: []byte{'k', byte(round), byte(n)}, Value: make([]byte, size)})
			left -= size
		}
		mustCommit(t, s, b)
	}
}
