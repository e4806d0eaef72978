package admission

import (
	"context"
	"sync"
	"time"
)

// Place is a place in a Gate whose holder gives it up while it waits for a disk, a network or a lock. So a gate bounds how
// many work, not how many wait. A nil Place is valid: its methods do nothing.
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

// Hold is Enter for a holder that will wait for something. Pass the place on with With, so that Pause finds it.
func (g *Gate) Hold(ctx context.Context, tenant string) (*Place, error) {
	if err := g.Enter(ctx, tenant); err != nil {
		return nil, err
	}
	return &Place{gate: g, tenant: tenant, since: time.Now()}, nil
}

// With returns a context in which Pause and Depart find the place.
func (p *Place) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

// Pause gives up the place that a context carries, until resume is called. resume never waits, even if the gate is full by
// then: the holder may hold a lock that the others wait for. Without a place, Pause does nothing.
func Pause(ctx context.Context) (resume func()) {
	p, _ := ctx.Value(placeKey{}).(*Place)
	return p.Pause()
}

// Depart is Pause for a wait that is short whatever others do, such as a write to disk. The holder still counts as inside
// its gate; see Crowd.
func Depart(ctx context.Context) (resume func()) {
	p, _ := ctx.Value(placeKey{}).(*Place)
	return p.pause(true)
}

// Pause gives up the place until resume is called, like the function Pause.
func (p *Place) Pause() (resume func()) { return p.pause(false) }

func (p *Place) pause(away bool) (resume func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits++
	if p.waits == 1 && !p.left {
		p.away = away
		p.gate.release(p.tenant, time.Since(p.since), away)
	}
	return p.resume
}

func (p *Place) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits--
	if p.waits == 0 && !p.left {
		p.since = time.Now()
		p.gate.retake(p.tenant, p.away)
	}
}

// Leave gives the place back for good. Goroutines of the holder that still run may pause and resume.
func (p *Place) Leave() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.left && p.waits == 0 {
		p.gate.release(p.tenant, time.Since(p.since), false)
	}
	p.left = true
}
