package hostapi

import (
	"context"
	"sync"
)

// poolKey identifies interchangeable instances. Tenants never share an instance, although restoring makes all alike.
// The config is not part of the key, because it comes with each request.
type poolKey struct {
	tenant string
	module *module
	size   arenaSize
}

// shares is how many tenants it takes to fill a pool: one tenant keeps at most a quarter of its bytes.
const shares = 4

// pool keeps idle instances, for each key newest first, and all of them in order of age. If a tenant's instances take
// more than its share, its oldest one is removed. If all together take more than limit bytes, the oldest one of a
// tenant that holds at least the average is removed, so that a tenant cannot displace the instances of others.
// Instances that were not used between two sweeps are removed, too, so that idle tenants keep none.
//
// An instance knows its shelf, and the shelf its holder, so that a call looks up only one key. Empty ones are kept
// until the next sweep.
type pool struct {
	mu             sync.Mutex
	shelves        map[poolKey]*shelf
	holders        map[string]*holder // by tenant
	newest, oldest *instance
	holding        int // how many tenants hold something
	bytes, limit   int
	sweeps         int  // so far
	watched        bool // a sweep is scheduled
}

// shelf holds the idle instances with a key.
type shelf struct {
	top    *instance // the newest
	holder *holder
	gone   bool // it was empty at a sweep
}

// holder is what a tenant's idle instances use.
type holder struct{ bytes int }

func newPool(limit int) *pool {
	return &pool{shelves: map[poolKey]*shelf{}, holders: map[string]*holder{}, limit: limit}
}

// take removes and returns the newest idle instance of a key, or nil.
func (p *pool) take(key poolKey) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shelves[key]
	if s == nil || s.top == nil {
		return nil
	}
	in := s.top
	p.remove(in)
	return in
}

// shelfOf returns the shelf for a key.
func (p *pool) shelfOf(key poolKey) *shelf {
	s := p.shelves[key]
	if s == nil {
		h := p.holders[key.tenant]
		if h == nil {
			h = &holder{}
			p.holders[key.tenant] = h
		}
		s = &shelf{holder: h}
		p.shelves[key] = s
	}
	return s
}

// tidy removes empty shelves and tenants that hold nothing.
func (p *pool) tidy() {
	for key, s := range p.shelves {
		if s.top == nil {
			s.gone = true
			delete(p.shelves, key)
		}
	}
	for tenant, h := range p.holders {
		if h.bytes == 0 {
			delete(p.holders, tenant)
		}
	}
}

// put adds an idle instance and returns those that must be closed to make room, as a list linked by older. If watch is
// true, the caller must make sure that sweep is called.
func (p *pool) put(in *instance) (evicted *instance, watch bool) {
	in.idle = in.footprint()
	p.mu.Lock()
	defer p.mu.Unlock()
	if in.shelf == nil || in.shelf.gone {
		in.shelf = p.shelfOf(in.key)
	}
	if in.below = in.shelf.top; in.below != nil {
		in.below.above = in
	}
	in.shelf.top = in
	if in.older = p.newest; in.older != nil {
		in.older.newer = in
	} else {
		p.oldest = in
	}
	p.newest = in
	in.sweep = p.sweeps
	held := in.shelf.holder
	if held.bytes == 0 {
		p.holding++
	}
	p.bytes += in.idle
	held.bytes += in.idle
	out := func(victim *instance) {
		p.remove(victim)
		victim.older = evicted
		evicted = victim
	}
	for held.bytes > p.limit/shares {
		victim := p.oldest
		for victim.shelf.holder != held {
			victim = victim.newer
		}
		out(victim)
	}
	for p.bytes > p.limit {
		victim := p.oldest
		for victim.shelf.holder.bytes*p.holding < p.bytes {
			victim = victim.newer
		}
		out(victim)
	}
	watch = !p.watched // also if nothing was kept, for the shelf
	p.watched = true
	return evicted, watch
}

// sweep removes the instances that were not used since the previous sweep, and returns them like put. If watch is true,
// another sweep is needed later; otherwise the next put asks for one.
func (p *pool) sweep() (dropped *instance, watch bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for in := p.oldest; in != nil && in.sweep < p.sweeps; in = p.oldest {
		p.remove(in)
		in.older, dropped = dropped, in
	}
	p.tidy()
	p.sweeps++
	p.watched = p.oldest != nil
	return dropped, p.watched
}

// drop removes all idle instances of a module and returns them like put.
func (p *pool) drop(m *module) (dropped *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for in := p.oldest; in != nil; {
		next := in.newer
		if in.key.module == m {
			p.remove(in)
			in.older, dropped = dropped, in
		}
		in = next
	}
	return dropped
}

func (p *pool) remove(in *instance) {
	if in.above != nil {
		in.above.below = in.below
	} else {
		in.shelf.top = in.below
	}
	if in.below != nil {
		in.below.above = in.above
	}
	if in.newer != nil {
		in.newer.older = in.older
	} else {
		p.newest = in.older
	}
	if in.older != nil {
		in.older.newer = in.newer
	} else {
		p.oldest = in.newer
	}
	in.above, in.below, in.newer, in.older = nil, nil, nil, nil
	p.bytes -= in.idle
	if in.shelf.holder.bytes -= in.idle; in.shelf.holder.bytes == 0 {
		p.holding--
	}
}

// closeAll closes a list of instances linked by older.
func closeAll(in *instance) {
	for ; in != nil; in = in.older {
		in.close(context.Background())
	}
}

// keep makes an instance idle.
func (h *Host) keep(in *instance) {
	evicted, watch := h.pool.put(in)
	closeAll(evicted)
	if watch {
		h.sweeper.Reset(h.limits.IdleTime)
	}
}

// sweep closes the instances that have been idle for long. When none is left, it also drops the memories that they left
// behind.
func (h *Host) sweep() {
	dropped, watch := h.pool.sweep()
	closeAll(dropped)
	if watch {
		h.sweeper.Reset(h.limits.IdleTime)
	} else {
		h.buffers.clear()
	}
}
