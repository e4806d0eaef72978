package cache

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The cache returns only values that a key had at the version: readers note what they read some versions ago, commits
// come in between, and values have all lengths, so that some are not cached and the cache is sometimes emptied.
func TestCacheIsExact(t *testing.T) {
	t.Parallel()
	const versions, keys, room = 3000, 40, 64 << 10
	random := rand.New(rand.NewPCG(3, 4))
	key := func() []byte { return fmt.Append(nil, "key", random.IntN(keys)) }
	states := []map[string][]byte{{}} // by version: all keys and values
	c := New(0, room)
	hits := 0
	for version := uint64(1); version <= versions; version++ {
		var batches []store.Batch
		for range 1 + random.IntN(3) {
			var b store.Batch
			for _, k := range [][]byte{key(), key()} {
				switch random.IntN(8) {
				case 0, 1:
					b.Delete = append(b.Delete, k)
				case 2: // present, but empty
					b.Put = append(b.Put, store.Pair{Key: k})
				default:
					value := bytes.Repeat([]byte{byte(version)}, random.IntN(1<<random.IntN(16)))
					b.Put = append(b.Put, store.Pair{Key: k, Value: value})
				}
			}
			batches = append(batches, b)
		}
		state := replay(states[version-1], batches)
		states = append(states, state)
		c.Commit(version, batches)
		for range 10 {
			at := version - min(version, uint64(random.IntN(3)))
			k := key()
			stands := states[at][string(k)]
			if value, ok := c.Get(k, at); !ok {
				c.Note(k, stands, at)
			} else {
				hits++
				if !bytes.Equal(value, stands) || (value == nil) != (stands == nil) {
					t.Fatalf("version %d of %d: %q is %d bytes (nil: %t), want %d (nil: %t)", at, version, k, len(value),
						value == nil, len(stands), stands == nil)
				}
			}
		}
		if size := c.held(); size != c.size || size > room {
			t.Fatalf("%d bytes are held, %d counted", size, c.size)
		}
	}
	if hits < versions {
		t.Errorf("only %d reads were answered from memory", hits)
	}
}

// replay returns the state after batches.
func replay(before map[string][]byte, batches []store.Batch) map[string][]byte {
	state := maps.Clone(before)
	for _, b := range batches {
		for _, p := range b.Put {
			state[string(p.Key)] = append([]byte{}, p.Value...)
		}
		for _, k := range b.Delete {
			delete(state, string(k))
		}
	}
	return state
}

// held returns the size of all entries.
func (c *Cache) held() (size int) {
	for k, v := range c.values {
		size += len(k) + len(v.value) + overhead
	}
	return size
}
