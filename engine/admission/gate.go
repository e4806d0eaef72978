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

	// A tenant with at least long holders in line rests after each place, rests times as long as it held the place; see
	// Pace.
	long  int
	rests int
	wake  *time.Timer // serves those that have rested
}

// NewGate returns a Gate with n places, of which one tenant may hold at most share.
func NewGate(places, share int) *Gate {
	return &Gate{turns: NewTurns(places, share), lines: map[string][]chan struct{}{}}
}

// Crowd lowers the share of each tenant while several are active, and bounds how many of its holders are inside: those
// that hold a place and those that left it with Depart. A tenant that is active alone has its whole share. So one that
// comes with little to do finds a free place at once.
func (g *Gate) Crowd(share, inside int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns.limits.crowd = share
	g.turns.limits.inside = inside
}

// Pace makes a tenant with long or more in line rest between its places while several tenants are active: rests times as
// long as it held each. Meanwhile processors are idle, and the others get one at once.
func (g *Gate) Pace(long, rests int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.long = long
	g.rests = rests
}

// longestRest bounds the rest after a place that was held for long.
const longestRest = 50 * time.Millisecond

// Waiting returns how many wait for a place.
func (g *Gate) Waiting() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, line := range g.lines {
		n += len(line)
	}
	return n
}

// Enter waits for a place. If ctx ends first, Enter returns its error. While it waits, it gives up the place in another
// gate that ctx carries.
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

// WaitingOf returns how many wait for a place of one tenant.
func (g *Gate) WaitingOf(tenant string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.lines[tenant])
}

// Leave returns a place.
func (g *Gate) Leave(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free(tenant)
}

// Yield gives a held place to a tenant that waits and holds fewer, if there is one, and waits until it is this tenant's
// turn again. It reports whether it waited. Meanwhile it gives up the place in another gate that ctx carries.
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

// free returns a place and serves those in line.
func (g *Gate) free(tenant string) {
	g.turns.Free(tenant)
	g.serve()
}

// release returns a place that was held for a time. away means that its holder takes it again soon.
func (g *Gate) release(tenant string, held time.Duration, away bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rests > 0 && len(g.lines[tenant]) >= g.long && g.turns.crowded(time.Now()) {
		g.turns.Rest(tenant, min(time.Duration(g.rests)*held, longestRest))
	}
	if away {
		g.turns.Away(tenant, 1)
	}
	g.free(tenant)
}

// retake takes a released place again, without waiting.
func (g *Gate) retake(tenant string, away bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns.Force(tenant)
	if away {
		g.turns.Away(tenant, -1)
	}
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

// awaitRested serves again when the first of those that wait has rested.
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

// giveUp leaves the line. It reports false if the place was given already.
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
