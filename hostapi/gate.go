package hostapi

import (
	"context"
	"sync"
)

// gate lets a bounded number of holders through, and shares the places between tenants: a free one goes to the tenant
// that holds the fewest, and of those to the one that was served longest ago.
type gate struct {
	places int // in all
	share  int // one tenant's at most

	mu      sync.Mutex
	used    int
	held    map[string]int
	waiting map[string]*queue // tenants with someone in line
	turn    uint64            // counts who joined and who was served
}

// queue is one tenant's line, in the order of arrival.
type queue struct {
	line   []chan struct{} // closed when its place is given
	served uint64          // the turn of the last, or that of joining
}

func newGate(places, share int) *gate {
	return &gate{places: places, share: max(1, share), held: map[string]int{}, waiting: map[string]*queue{}}
}

// enter waits for a place, or for ctx to end, whose error it then answers.
func (g *gate) enter(ctx context.Context, tenant string) error {
	g.mu.Lock()
	if g.used < g.places && g.held[tenant] < g.share {
		g.take(tenant)
		g.mu.Unlock()
		return nil
	}
	q := g.waiting[tenant]
	if q == nil {
		g.turn++
		q = &queue{served: g.turn}
		g.waiting[tenant] = q
	}
	given := make(chan struct{})
	q.line = append(q.line, given)
	g.mu.Unlock()
	select {
	case <-given:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.giveUp(tenant, given) {
		g.free(tenant) // it was given just now
	}
	return ctx.Err()
}

// leave gives a place back.
func (g *gate) leave(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free(tenant)
}

func (g *gate) take(tenant string) {
	g.used++
	g.held[tenant]++
}

func (g *gate) free(tenant string) {
	g.used--
	if g.held[tenant]--; g.held[tenant] == 0 {
		delete(g.held, tenant)
	}
	g.serve()
}

// serve gives what is free to those in line.
func (g *gate) serve() {
	for g.used < g.places {
		tenant, q := g.next()
		if q == nil {
			return
		}
		g.turn++
		q.served = g.turn
		given := q.line[0]
		if q.line = q.line[1:]; len(q.line) == 0 {
			delete(g.waiting, tenant)
		}
		g.take(tenant)
		close(given)
	}
}

// next finds who is to be served; nil where all in line have their share.
func (g *gate) next() (tenant string, best *queue) {
	for name, q := range g.waiting {
		held := g.held[name]
		if held >= g.share {
			continue
		}
		if best == nil || held < g.held[tenant] || held == g.held[tenant] && q.served < best.served {
			tenant, best = name, q
		}
	}
	return tenant, best
}

// giveUp leaves the line; false where the place was given already.
func (g *gate) giveUp(tenant string, given chan struct{}) bool {
	q := g.waiting[tenant]
	if q == nil {
		return false
	}
	for i := range q.line {
		if q.line[i] == given {
			q.line = append(q.line[:i:i], q.line[i+1:]...)
			if len(q.line) == 0 {
				delete(g.waiting, tenant)
			}
			return true
		}
	}
	return false
}
