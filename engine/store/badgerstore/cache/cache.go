// Package cache caches the values of recently read keys.
package cache

import (
	"bytes"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// maxValue is the maximum length of a cached value.
	maxValue = 8 << 10
	// overhead is the cost of an entry in addition to its key and its value.
	overhead = 96
)

// Cache caches values of single keys, because each request reads the same few: its API key, its project, the head of
// its session. A database would search its tables for each. The cache is exact: it learns of a commit before readers
// may see it. It is safe for concurrent use.
type Cache struct {
	mu      sync.RWMutex
	version uint64 // of the newest commit
	values  map[string]entry
	size    int // in bytes, including overhead
	room    int // the maximum size
}

// entry is the value of a key from a version on.
type entry struct {
	value []byte // nil: absent
	since uint64
}

// New returns a cache for a database at a version. It holds up to room bytes of keys and values.
func New(version uint64, room int) *Cache {
	return &Cache{version: version, values: map[string]entry{}, room: room}
}

// Get returns the value of a key at a version that was committed; nil: the key is absent. Callers must not change the
// value.
func (c *Cache) Get(key []byte, version uint64) (value []byte, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.values[string(key)]
	return e.value, ok && e.since <= version
}

// Note caches a copy of a value that was read at a version, unless there has been a commit since.
func (c *Cache) Note(key, value []byte, version uint64) {
	if len(value) > maxValue {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == version {
		c.put(key, bytes.Clone(value))
	}
}

// Commit applies the batches of a new version. No reader may see that version yet.
func (c *Cache) Commit(version uint64, batches []store.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
	for i := range batches {
		for _, p := range batches[i].Put {
			c.change(p.Key, p.Value, false)
		}
		for _, key := range batches[i].Delete {
			c.change(key, nil, true)
		}
	}
}

// change sets the current value of a key if the key has been read.
func (c *Cache) change(key, value []byte, deleted bool) {
	switch _, known := c.values[string(key)]; {
	case !known:
	case deleted:
		c.put(key, nil)
	case len(value) > maxValue:
		c.drop(key)
	default:
		c.put(key, append([]byte{}, value...))
	}
}

func (c *Cache) put(key, value []byte) {
	c.drop(key)
	size := len(key) + len(value) + overhead
	if c.size+size > c.room {
		clear(c.values)
		c.size = 0
	}
	c.values[string(key)] = entry{value, c.version}
	c.size += size
}

func (c *Cache) drop(key []byte) {
	if e, known := c.values[string(key)]; known {
		c.size -= len(key) + len(e.value) + overhead
		delete(c.values, string(key))
	}
}
