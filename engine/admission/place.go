package admission

import (
	"context"
	"sync"
	"time"
)

// Place is a place in a Gate whose holder gives it up for as long as it waits for something: a disk, a network, a lock.
// So the places of a gate bound what works, not what waits. A nil Place is one that nobody holds.
type Place struct {
	gate   *Gate
	tenant string

	mu    sync.Mutex
	since time.Time // the place was given, or given again
	waits int       // how many goroutines of the holder wait; the place is given up while there is one
	away  bool      // the first of them departed, so that the place counts as inside
	left  bool
}

type placeKey struct{}

// Hold is Enter for a holder that will wait on the way. Pause finds the place in the context that Hold answers.
func (g *Gate) Hold(ctx context.Context, tenant string) (*Place, error) {
	if err := g.Enter(ctx, tenant); err != nil {
		return nil, err
	}
	return &Place{gate: g, tenant: tenant, since: time.Now()}, nil
}

// With is a context in which Pause finds the place.
func (p *Place) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

// Pause gives up the place that a context carries, until resume is called. Resume never waits, also where the gate is
// full by then: the holder may hold a lock that those who have the places wait for. Without a place it does nothing.
func Pause(ctx context.Context) (resume func()) {
	p, _ := ctx.Value(placeKey{}).(*Place)
	return p.Pause()
}

// Depart is Pause for a wait that is short whatever others do, such as that for the disk. The holder still counts as
// inside its gate: see Crowd.
func Depart(ctx context.Context) (resume func()) {
	p, _ := ctx.Value(placeKey{}).(*Place)
	return p.pause(true)
}

// Pause is as the function Pause.
func (p *Place) Pause() (resume func()) { return p.pause(false) }

func (p *Place) pause(away bool) (resume func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits++; p.waits == 1 && !p.left {
		if p.away = away; away {
			p.gate.depart(p.tenant, time.Since(p.since))
		} else {
			p.gate.leave(p.tenant, time.Since(p.since))
		}
	}
	return p.resume
}

func (p *Place) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits--; p.waits == 0 && !p.left {
		p.since = time.Now()
		if p.away {
			p.gate.comeBack(p.tenant)
		} else {
			p.gate.reenter(p.tenant)
		}
	}
}

// Leave gives the place back for good. What the holder has left behind may still pause and resume.
func (p *Place) Leave() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.left && p.waits == 0 {
		p.gate.leave(p.tenant, time.Since(p.since))
	}
	p.left = true
}
