package hostapi

import "sync"

// poolKey names instances that are interchangeable. Tenants never share an instance, although restoring makes all
// alike. The config is no part of the key, because it comes with each request.
type poolKey struct {
	tenant string
	module *module
	size   arenaSize
}

// pool keeps idle instances: the newest first for each key, and all of them in order of age. Where together they take
// more than limit bytes, the oldest one goes of a tenant that holds at least the average, so that a tenant cannot push
// out the instances of others.
type pool struct {
	mu             sync.Mutex
	top            map[poolKey]*instance
	newest, oldest *instance
	held           map[string]int // bytes by tenant
	bytes, limit   int
}

func newPool(limit int) *pool {
	return &pool{top: map[poolKey]*instance{}, held: map[string]int{}, limit: limit}
}

// take removes and returns the newest idle instance of a key, or nil.
func (p *pool) take(key poolKey) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.top[key]
	if in != nil {
		p.remove(in)
	}
	return in
}

// put adds an idle instance and returns those that must make room, for the caller to close: a list linked by older.
func (p *pool) put(in *instance) (evicted *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if in.below = p.top[in.key]; in.below != nil {
		in.below.above = in
	}
	p.top[in.key] = in
	if in.older = p.newest; in.older != nil {
		in.older.newer = in
	} else {
		p.oldest = in
	}
	p.newest = in
	p.bytes += in.footprint()
	p.held[in.key.tenant] += in.footprint()
	for p.bytes > p.limit {
		victim := p.oldest
		for p.held[victim.key.tenant]*len(p.held) < p.bytes {
			victim = victim.newer
		}
		p.remove(victim)
		victim.older = evicted
		evicted = victim
	}
	return evicted
}

// drop removes all idle instances of a module and returns them as put does.
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
	switch {
	case in.above != nil:
		in.above.below = in.below
	case in.below != nil:
		p.top[in.key] = in.below
	default:
		delete(p.top, in.key)
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
	p.bytes -= in.footprint()
	if p.held[in.key.tenant] -= in.footprint(); p.held[in.key.tenant] == 0 {
		delete(p.held, in.key.tenant)
	}
}

// footprint is what an idle instance takes, in bytes: its memory, and about 16 KiB of stacks and tables.
func (in *instance) footprint() int {
	const besides = 16 << 10
	return cap(in.memory.bytes) + besides
}
