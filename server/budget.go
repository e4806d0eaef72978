package server

import (
	"math"
	"runtime/debug"
	"sync"
)

// bodyCost is the estimated peak memory, in bytes, per byte of a request body, from its arrival to the response: the
// body, its texts, their tokens, what is stored, and uncollected garbage. Long messages take 8, bodies of tiny values
// 32.
const bodyCost = 32

// defaultBudget returns the memory that request bodies and long responses may take together: half of the process's
// limit.
func defaultBudget() int64 {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 { // the operator has switched the limit off
		limit = 4 << 30
	}
	return limit / 2
}

// budget shares a number of bytes, or of other units, between tenants. Each may hold half of what the others have left,
// so there is always something left for the next tenant.
type budget struct {
	mu      sync.Mutex
	size    int64
	used    int64
	tenants map[string]int64
}

func newBudget(size int64) *budget { return &budget{size: size, tenants: map[string]int64{}} }

// lease is the share of a budget that one request holds. The zero lease holds nothing.
type lease struct {
	of     *budget
	tenant string
	bytes  int64
}

// grow adds bytes to the lease and reports whether they fit. One request counts as at most a quarter of the budget,
// so that with little memory, any request that the other limits allow can still be served when the server is not
// busy.
func (l *lease) grow(bytes int64) bool { return l.take(bytes, false) }

// force adds bytes that are already allocated. If they exceed the budget, later requests are refused.
func (l *lease) force(bytes int64) { l.take(bytes, true) }

func (l *lease) take(bytes int64, force bool) bool {
	b := l.of
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes = min(bytes, b.size/4-l.bytes)
	if bytes <= 0 {
		return true
	}
	own := b.tenants[l.tenant]
	if !force && own+bytes > (b.size-(b.used-own))/2 {
		return false
	}
	b.used += bytes
	b.tenants[l.tenant] += bytes
	l.bytes += bytes
	return true
}

// release returns all bytes to the budget.
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

// resize changes the size. Leases that exceed it stay until they are released.
func (b *budget) resize(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size = size
}

// held returns the number of bytes that are in use.
func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
