package badgerstore

import "sync"

const (
	// cacheSize bounds what a database's cache holds, in bytes of keys and values.
	cacheSize = 4 << 20
	// maxCached is the longest value that it holds.
	maxCached = 8 << 10
	// cachedOverhead is what an entry costs besides its key and its value.
	cachedOverhead = 96
)

// cache holds what stands under keys that were read lately, because each request reads the same few: its API key, its
// project, the head of its session. Badger looks for each in its tables. The cache is exact: it learns of a commit before
// readers may see that.
type cache struct {
	mu      sync.RWMutex
	version uint64            // of the newest commit
	values  map[string]cached // by stored key
	size    int
	room    int // for size
}

// cached is what stands under a key from a version on.
type cached struct {
	value []byte // nil: nothing
	since uint64
}

func newCache(version uint64, room int) *cache {
	return &cache{version: version, values: map[string]cached{}, room: room}
}

// get finds what stands under a key at a version that is pinned.
func (c *cache) get(key []byte, version uint64) (value []byte, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.values[string(key)]
	return v.value, ok && v.since <= version
}

// note remembers what was read at a version, unless there has been a commit since.
func (c *cache) note(key, value []byte, version uint64) {
	if len(value) > maxCached {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == version {
		c.put(key, cached{value, version})
	}
}

// commit learns what requests make of the version before. No reader may see theirs yet.
func (c *cache) commit(version uint64, requests []*request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
	for _, r := range requests {
		for _, p := range r.batch.Put {
			c.change(p.Key, append([]byte{}, p.Value...))
		}
		for _, key := range r.batch.Delete {
			c.change(key, nil)
		}
	}
}

// change notes what stands under a key from now on, where somebody has read that key.
func (c *cache) change(key, value []byte) {
	switch _, known := c.values[string(key)]; {
	case !known:
	case len(value) > maxCached:
		c.drop(key)
	default:
		c.put(key, cached{value, c.version})
	}
}

func (c *cache) put(key []byte, v cached) {
	c.drop(key)
	size := len(key) + len(v.value) + cachedOverhead
	if c.size+size > c.room {
		clear(c.values)
		c.size = 0
	}
	c.values[string(key)] = v
	c.size += size
}

func (c *cache) drop(key []byte) {
	if v, known := c.values[string(key)]; known {
		c.size -= len(key) + len(v.value) + cachedOverhead
		delete(c.values, string(key))
	}
}
