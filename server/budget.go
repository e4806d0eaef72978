package server

import (
	"math"
	"runtime/debug"
	"sync"
)

// bodyCost is how many bytes of memory a byte of a request's body can take, from its arrival to its answer: the body,
// its texts, their tokens, what is stored, and garbage until it is collected. Long messages take 8, bodies of tiny
// values 32.
const bodyCost = 32

// defaultBudget is the memory that requests' bodies and long answers may take together: half of the process's limit.
func defaultBudget() int64 {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 { // the operator has switched the limit off
		limit = 4 << 30
	}
	return limit / 2
}

// budget shares a number of bytes between tenants. Each may hold half of what the others have left, so that however
// many take all that they can, there is something for the next one.
type budget struct {
	size int64

	mu      sync.Mutex
	used    int64
	tenants map[string]int64
}

func newBudget(size int64) *budget { return &budget{size: size, tenants: map[string]int64{}} }

// lease is what one request holds of a budget. The zero lease holds nothing.
type lease struct {
	of     *budget
	tenant string
	bytes  int64
}

// grow takes so many bytes more. One request counts as a quarter of the budget at most, so that where there is little
// memory, every request that the other limits allow can be served while not much else is.
func (l *lease) grow(bytes int64) bool { return l.take(bytes, false) }

// force is grow for what is there already: the next ones are then refused.
func (l *lease) force(bytes int64) { l.take(bytes, true) }

func (l *lease) take(bytes int64, force bool) bool {
	b := l.of
	bytes = min(bytes, b.size/4-l.bytes)
	if bytes <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.tenants[l.tenant]
	if !force && own+bytes > (b.size-(b.used-own))/2 {
		return false
	}
	b.used += bytes
	b.tenants[l.tenant] += bytes
	l.bytes += bytes
	return true
}

// release gives everything back.
func (l *lease) release() {
	if l.bytes == 0 {
		return
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.used -= l.bytes
	if l.of.tenants[l.tenant] -= l.bytes; l.of.tenants[l.tenant] == 0 {
		delete(l.of.tenants, l.tenant)
	}
	l.bytes = 0
}

// held is how much of the budget is taken.
func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
