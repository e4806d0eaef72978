// Package lru is a cache with a limit in bytes that evicts the least recently used entries.
package lru

import (
	"cmp"
	"container/list"
	"sync"
)

// overhead is the approximate size of an entry besides its key and its value, in bytes. It counts even before a value
// is set, so that the number of keys is limited, too.
const overhead = 256

// Map is a map from keys to values. It is safe for concurrent use.
type Map[T any] struct {
	limit int
	fresh func() T
	mu    sync.Mutex
	bytes int
	cells map[string]*list.Element // of *Cell[T]
	order list.List                // most recent first
}

// Cell is the entry of one key. Its mutex protects the value.
type Cell[T any] struct {
	sync.Mutex
	Key   string
	Value T
	size  int // what it counts in Map.bytes; protected by Map.mu
}

// New returns a map whose entries take at most limit bytes, or only the newest entry if that is larger. A limit of 0
// means 64 MiB. fresh returns the initial value of a new entry.
func New[T any](limit int, fresh func() T) *Map[T] {
	return &Map[T]{limit: cmp.Or(limit, 64<<20), fresh: fresh, cells: map[string]*list.Element{}}
}

// Cell returns the cell of a key without locking it.
func (m *Map[T]) Cell(key string) *Cell[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if el, ok := m.cells[key]; ok {
		m.order.MoveToFront(el)
		return el.Value.(*Cell[T])
	}
	c := &Cell[T]{Key: key, Value: m.fresh()}
	m.cells[key] = m.order.PushFront(c)
	m.weigh(c, 0)
	return c
}

// Get returns the value of a key, if there is one.
func (m *Map[T]) Get(key []byte) (v T, ok bool) {
	m.mu.Lock()
	el, ok := m.cells[string(key)]
	if !ok {
		m.mu.Unlock()
		return v, false
	}
	m.order.MoveToFront(el)
	m.mu.Unlock()
	c := el.Value.(*Cell[T])
	c.Lock()
	defer c.Unlock()
	return c.Value, true
}

// Put sets the value of a key and its size in bytes.
func (m *Map[T]) Put(key string, v T, size int) {
	c, unlock := m.Locked(key)
	defer unlock()
	m.Keep(c, v, size)
}

// Remove removes a key, if it is there.
func (m *Map[T]) Remove(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if el, ok := m.cells[key]; ok {
		m.order.Remove(el)
		delete(m.cells, key)
		m.bytes -= el.Value.(*Cell[T]).size
	}
}

// Locked returns the cell of a key, locked.
func (m *Map[T]) Locked(key string) (c *Cell[T], unlock func()) {
	c = m.Cell(key)
	c.Lock()
	return c, c.Unlock
}

// Keep sets the value of a locked cell and its size in bytes.
func (m *Map[T]) Keep(c *Cell[T], v T, size int) {
	c.Value = v
	m.Weigh(c, size)
}

// Weigh sets the size of a cell's value in bytes. It has no effect if the cell has been evicted.
func (m *Map[T]) Weigh(c *Cell[T], size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if el, ok := m.cells[c.Key]; ok && el.Value == c {
		m.weigh(c, size)
	}
}

func (m *Map[T]) weigh(c *Cell[T], size int) {
	size += len(c.Key) + overhead
	m.bytes += size - c.size
	c.size = size
	for m.bytes > m.limit && m.order.Len() > 1 {
		last := m.order.Remove(m.order.Back()).(*Cell[T])
		delete(m.cells, last.Key)
		m.bytes -= last.size
	}
}
