package hostapi

import "sync"

// buffers keeps the memories of closed instances, zeroed, for new ones of the same size. Without it, modules that need
// a new instance for each call would create garbage as fast as they can.
type buffers struct {
	mu           sync.Mutex
	kept         [][]byte // oldest first
	bytes, limit int
}

// take returns a zeroed memory of this capacity.
func (b *buffers) take(capacity int) []byte {
	if found := b.find(capacity); found != nil {
		return found[:capacity]
	}
	return make([]byte, capacity) // without the lock, because clearing the longest takes milliseconds
}

func (b *buffers) find(capacity int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.kept) - 1; i >= 0; i-- {
		if found := b.kept[i]; cap(found) == capacity {
			b.remove(i)
			return found
		}
	}
	return nil
}

// put keeps a memory; everything beyond its length is already zero.
func (b *buffers) put(memory []byte) {
	zero(memory)
	b.mu.Lock()
	defer b.mu.Unlock()
	if cap(memory) > b.limit {
		return
	}
	for b.bytes+cap(memory) > b.limit {
		b.remove(0)
	}
	b.kept = append(b.kept, memory)
	b.bytes += cap(memory)
}

// clear drops all memories.
func (b *buffers) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept, b.bytes = nil, 0
}

func (b *buffers) remove(i int) {
	b.bytes -= cap(b.kept[i])
	copy(b.kept[i:], b.kept[i+1:])
	b.kept[len(b.kept)-1] = nil
	b.kept = b.kept[:len(b.kept)-1]
}

// zero clears a memory in parts, because the runtime cannot preempt a goroutine while it clears one.
func zero(memory []byte) {
	const part = 128 << 10
	for len(memory) > part {
		clear(memory[:part])
		memory = memory[part:]
	}
	clear(memory)
}
