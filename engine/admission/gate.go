package admission

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Gate lets a bounded number of holders through, in the order of Turns.
type Gate struct {
	mu    sync.Mutex
	turns *Turns
	lines map[string][]chan struct{} // by tenant, in the order of arrival; each is closed when its place is given

	// A tenant with so many in line rests so many times as long as it held a place; see Pace.
	long  int
	rests int
	wake  *time.Timer // serves those that have rested
}

// NewGate makes a Gate of so many places, of which one tenant holds at most share.
func NewGate(places, share int) *Gate {
	return &Gate{turns: NewTurns(places, share), lines: map[string][]chan struct{}{}}
}

// Crowd lowers the share of each tenant while another one is about, and bounds how many of its holders are inside then:
// those at work and those that departed for a short time. A tenant that is alone has all of its share. One that comes
// with little to do finds something left, and not only at the end of what the other is doing.
func (g *Gate) Crowd(share, inside int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns.crowd, g.turns.inside = share, inside
}

// Pace makes a tenant that has long or more in line, while another one is about, rest between its places: rests times
// as long as it held each. Processors are idle meanwhile, which the others find free at once.
func (g *Gate) Pace(long, rests int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.long, g.rests = long, rests
}

// longestRest bounds the rest behind a place that was held for long.
const longestRest = 50 * time.Millisecond

// held notes for how long a place was held that is given back now. The lock must be held.
func (g *Gate) held(tenant string, d time.Duration) {
	if g.rests > 0 && len(g.lines[tenant]) >= g.long && g.turns.crowded() {
		g.turns.Rest(tenant, min(time.Duration(g.rests)*d, longestRest))
	}
}

// Waiting is how many wait for a place now.
func (g *Gate) Waiting() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, line := range g.lines {
		n += len(line)
	}
	return n
}

// Enter waits for a place, or for ctx to end, whose error it then answers. While it waits, it gives up the place in
// another gate that ctx carries.
func (g *Gate) Enter(ctx context.Context, tenant string) error {
	g.mu.Lock()
	if g.turns.Take(tenant) {
		g.mu.Unlock()
		return nil
	}
	given := make(chan struct{})
	g.turns.Wait(tenant)
	g.lines[tenant] = append(g.lines[tenant], given)
	g.awaitRested()
	g.mu.Unlock()
	defer Pause(ctx)()
	select {
	case <-given:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.giveUp(tenant, given) {
		g.free(tenant) // The place was given just now.
	}
	return ctx.Err()
}

// WaitingOf is how many of a tenant's wait for a place.
func (g *Gate) WaitingOf(tenant string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.lines[tenant])
}

// Leave gives a place back.
func (g *Gate) Leave(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free(tenant)
}

// reenter takes a place at once, for a holder that gave it up to wait.
func (g *Gate) reenter(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns.Force(tenant)
}

// Yield gives a place that is held to a tenant that waits for one and holds fewer, if there is any, and waits until it
// is this tenant's turn again. It returns whether it waited. Meanwhile it gives up the place in another gate that ctx
// carries.
func (g *Gate) Yield(ctx context.Context, tenant string) bool {
	g.mu.Lock()
	if !g.turns.Behind(tenant) {
		g.mu.Unlock()
		return false
	}
	given := make(chan struct{})
	g.turns.WaitLast(tenant)
	g.lines[tenant] = slices.Insert(g.lines[tenant], 0, given) // before the tenant's calls that have not begun
	g.free(tenant)
	g.mu.Unlock()
	defer Pause(ctx)()
	<-given
	return true
}

// free gives a place back and serves those in line.
func (g *Gate) free(tenant string) {
	g.turns.Free(tenant)
	g.serve()
}

// depart gives a place up that its holder will take again soon, and serves those in line.
func (g *Gate) depart(tenant string, held time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held(tenant, held)
	g.turns.Depart(tenant)
	g.serve()
}

// leave is Leave for a holder that knows for how long it held the place.
func (g *Gate) leave(tenant string, held time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held(tenant, held)
	g.free(tenant)
}

// comeBack is reenter for a holder that departed.
func (g *Gate) comeBack(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns.Return(tenant)
}

// serve gives free places to those in line.
func (g *Gate) serve() {
	for {
		next, ok := g.turns.Next(nil)
		if !ok {
			g.awaitRested()
			return
		}
		close(g.lines[next][0])
		g.remove(next, 0)
	}
}

// awaitRested serves again once somebody has rested who waits.
func (g *Gate) awaitRested() {
	at, ok := g.turns.Rested()
	switch {
	case !ok:
	case g.wake == nil:
		g.wake = time.AfterFunc(time.Until(at), func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.serve()
		})
	default:
		g.wake.Reset(time.Until(at))
	}
}

// giveUp leaves the line. It is false where the place was given already.
func (g *Gate) giveUp(tenant string, given chan struct{}) bool {
	at := slices.Index(g.lines[tenant], given)
	if at >= 0 {
		g.remove(tenant, at)
	}
	return at >= 0
}

func (g *Gate) remove(tenant string, at int) {
	g.lines[tenant] = slices.Delete(g.lines[tenant], at, at+1)
	if len(g.lines[tenant]) == 0 {
		delete(g.lines, tenant)
		g.turns.Leave(tenant)
	}
}
