package dialogue

import (
	"cmp"
	"container/list"
	"sync"
)

// weighed is something that takes about so many bytes of memory.
type weighed interface{ weigh() int }

// kept holds what is remembered, by key, the least recently used going first.
type kept[T weighed] struct {
	limit int
	fresh func() T
	mu    sync.Mutex
	bytes int
	cells map[string]*list.Element // of *cell[T]
	order list.List                // most recent first
}

// cell is what is remembered under one key.
type cell[T weighed] struct {
	key  string
	mu   sync.Mutex
	now  T
	size int // what bytes counts for it; under kept.mu
}

func newKept[T weighed](limit int, fresh func() T) *kept[T] {
	return &kept[T]{limit: cmp.Or(limit, 64<<20), fresh: fresh, cells: map[string]*list.Element{}}
}

// at gives what is remembered under a key, locked.
func (k *kept[T]) at(key string) (c *cell[T], unlock func()) {
	k.mu.Lock()
	if el, ok := k.cells[key]; ok {
		k.order.MoveToFront(el)
		c = el.Value.(*cell[T])
	} else {
		c = &cell[T]{key: key, now: k.fresh()}
		k.cells[key] = k.order.PushFront(c)
	}
	k.mu.Unlock()
	c.mu.Lock()
	return c, c.mu.Unlock
}

// keep remembers something in a cell that is locked, and lets the least recently used go.
func (k *kept[T]) keep(c *cell[T], v T) {
	c.now = v
	size := v.weigh() + len(c.key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if el, ok := k.cells[c.key]; !ok || el.Value != c {
		return // let go meanwhile
	}
	k.bytes += size - c.size
	c.size = size
	for k.bytes > k.limit && k.order.Len() > 1 {
		last := k.order.Remove(k.order.Back()).(*cell[T])
		delete(k.cells, last.key)
		k.bytes -= last.size
	}
}
