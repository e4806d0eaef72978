// Package cache holds what stands under keys that were read lately.
package cache

import (
	"bytes"
	"sync"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// maxValue is the longest value that a cache holds.
	maxValue = 8 << 10
	// overhead is what an entry costs besides its key and its value.
	overhead = 96
)

// Cache holds values of single keys, because each request reads the same few: its API key, its project, the head of its
// session. A database looks for each in its tables. What a cache answers is exact: it learns of a commit before readers
// may see that. Safe for concurrent use.
type Cache struct {
	mu      sync.RWMutex
	version uint64 // of the newest commit
	values  map[string]entry
	size    int // in bytes, with overhead
	room    int // for size
}

// entry is what stands under a key from a version on.
type entry struct {
	value []byte // nil: nothing
	since uint64
}

// New makes a cache of a database at a version, which holds so many bytes of keys and values.
func New(version uint64, room int) *Cache {
	return &Cache{version: version, values: map[string]entry{}, room: room}
}

// Get finds what stands under a key at a version that was made known; nil: nothing. Callers must not change it.
func (c *Cache) Get(key []byte, version uint64) (value []byte, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.values[string(key)]
	return e.value, ok && e.since <= version
}

// Note remembers a copy of what was read at a version, unless there has been a commit since.
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

// Commit learns of a version what its batches change of the one before. No reader may see that version yet.
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

// change notes what stands under a key from now on, where somebody has read that key.
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
