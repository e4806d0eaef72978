package lru

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestBound compares a map's size with its limit after any sequence of operations.
func TestBound(t *testing.T) {
	const limit = 20_000
	m, random := New(limit, func() int { return -1 }), rand.New(rand.NewPCG(1, 2))
	var old []*Cell[int]
	for n := range 5_000 {
		c := m.Cell(fmt.Sprint("key ", random.IntN(500)))
		old = append(old, c)
		switch random.IntN(5) {
		case 0:
			m.Keep(c, n, random.IntN(4_000))
		case 2:
			m.Remove(c.Key)
		case 3:
			m.Put(c.Key, n, random.IntN(4_000))
			if v, ok := m.Get([]byte(c.Key)); !ok || v != n {
				t.Fatalf("step %d: %s is %d, %v; want %d", n, c.Key, v, ok, n)
			}
		case 1:
			m.Weigh(old[random.IntN(len(old))], random.IntN(4_000)) // it may have been evicted
		}
		sum := 0
		for el := m.order.Front(); el != nil; el = el.Next() {
			sum += el.Value.(*Cell[int]).size
		}
		if sum != m.bytes || sum > limit || m.order.Len() != len(m.cells) {
			t.Fatalf("step %d: %d bytes, counted as %d, of %d and %d entries", n, sum, m.bytes, m.order.Len(), len(m.cells))
		}
	}
}

// TestKeysAlone expects a limit on the number of keys without values.
func TestKeysAlone(t *testing.T) {
	m := New(10*(overhead+8), func() int { return 0 })
	for n := range 1_000 {
		m.Cell(fmt.Sprintf("%08d", n))
	}
	if len(m.cells) != 10 {
		t.Errorf("%d keys are kept, want 10", len(m.cells))
	}
}

// TestOrder expects the least recently used entry to be evicted, and never the newest.
func TestOrder(t *testing.T) {
	m := New(3*(overhead+101), func() int { return -1 })
	for n, key := range []string{"a", "b", "c"} {
		c, unlock := m.Locked(key)
		m.Keep(c, n, 100)
		unlock()
	}
	m.Cell("a")
	m.Keep(m.Cell("d"), 3, 100)
	if got := m.Cell("a").Value; got != 0 {
		t.Errorf("a is %d, want 0", got)
	}
	if got := m.Cell("b").Value; got != -1 {
		t.Errorf("b is %d, want -1: it was the least recently used", got)
	}
	m.Keep(m.Cell("large"), 5, 1<<20)
	if got := m.Cell("large").Value; got != 5 || len(m.cells) != 1 {
		t.Errorf("large is %d among %d entries, want 5 alone", got, len(m.cells))
	}
}
