// Package lru remembers values by key within a bound of bytes. The least recently used go first.
package lru

import (
	"cmp"
	"container/list"
	"sync"
)

// overhead is about what an entry takes beside its key and its value, in bytes. It counts before anything is kept under
// a key, so that keys that are only asked for are bounded, too.
const overhead = 256

// Map holds values by key. It is safe for concurrent use.
type Map[T any] struct {
	limit int
	fresh func() T
	mu    sync.Mutex
	bytes int
	cells map[string]*list.Element // of *Cell[T]
	order list.List                // most recent first
}

// Cell is the place of one key. Its mutex is for those who use its value.
type Cell[T any] struct {
	sync.Mutex
	Key   string
	Value T
	size  int // what Map.bytes counts for it; under Map.mu
}

// New makes a map whose entries take at most limit bytes, or those of its newest entry where that alone has more. A
// limit of 0 is 64 MiB. What is not in the map begins as fresh says.
func New[T any](limit int, fresh func() T) *Map[T] {
	return &Map[T]{limit: cmp.Or(limit, 64<<20), fresh: fresh, cells: map[string]*list.Element{}}
}

// Cell gives the cell of a key, not locked.
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

// Locked gives the cell of a key, locked.
func (m *Map[T]) Locked(key string) (c *Cell[T], unlock func()) {
	c = m.Cell(key)
	c.Lock()
	return c, c.Unlock
}

// Keep sets the value of a locked cell, which takes so many bytes.
func (m *Map[T]) Keep(c *Cell[T], v T, size int) {
	c.Value = v
	m.Weigh(c, size)
}

// Weigh says how many bytes the value of a cell takes now. A cell that was let go meanwhile counts no more.
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
