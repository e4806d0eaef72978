package hostapi

import (
	"container/list"
	"context"
	"sync"

	"github.com/tetratelabs/wazero"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

// module is a loaded module. It never changes, except that its first instances set its snapshots.
type module struct {
	plan.Policy
	tenant     string // the tenant that loaded it first
	runtime    wazero.Runtime
	code       *compiler.Code
	globals    []string // export names of all mutable globals
	restorable bool     // it has no state beside memory and globals
	weight     int      // bytes of this process's memory that it takes

	mu      sync.Mutex
	started [sizeCount]*snapshot

	users int // running calls; modules.mu guards it, and place
	place *list.Element
}

// modules are the loaded modules of a host, which together take at most limit bytes of memory.
type modules struct {
	unload func(*module)
	limit  int

	mu     sync.Mutex
	loaded map[plan.Digest]*module
	newest *list.List // of *module, by last use
	bytes  int
}

func newModules(limit int, unload func(*module)) *modules {
	return &modules{unload: unload, limit: limit, loaded: map[plan.Digest]*module{}, newest: list.New()}
}

// use finds a module and keeps it loaded until done. It returns nil where the module is not loaded.
func (s *modules) use(d plan.Digest) *module {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.loaded[d]
	if m != nil {
		m.users++
		s.newest.MoveToFront(m.place)
	}
	return m
}

// done ends one use.
func (s *modules) done(m *module) {
	s.mu.Lock()
	m.users--
	evicted := s.evict()
	s.mu.Unlock()
	s.unloadAll(evicted)
}

func (s *modules) has(d plan.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded[d] != nil
}

// add keeps a module. Where another call has added the same one meanwhile, it unloads this one.
func (s *modules) add(m *module) {
	s.mu.Lock()
	if s.loaded[m.Digest] != nil {
		s.mu.Unlock()
		s.unload(m)
		return
	}
	s.loaded[m.Digest] = m
	m.place = s.newest.PushFront(m)
	s.bytes += m.weight
	evicted := s.evict()
	s.mu.Unlock()
	s.unloadAll(evicted)
}

// evict takes out modules until the rest fits: each time the one that was used longest ago among those of the tenant
// with the most bytes, so that a tenant cannot push out the modules of others. A module in use stays, and so does the
// newest, which could never be used otherwise.
func (s *modules) evict() (out []*module) {
	for s.bytes > s.limit {
		held := map[string]int{}
		for at := s.newest.Front(); at != nil; at = at.Next() {
			held[at.Value.(*module).tenant] += at.Value.(*module).weight
		}
		var worst *module
		for at := s.newest.Back(); at != s.newest.Front(); at = at.Prev() {
			m := at.Value.(*module)
			if m.users == 0 && (worst == nil || held[m.tenant] > held[worst.tenant]) {
				worst = m
			}
		}
		if worst == nil {
			return out
		}
		delete(s.loaded, worst.Digest)
		s.newest.Remove(worst.place)
		s.bytes -= worst.weight
		out = append(out, worst)
	}
	return out
}

func (s *modules) unloadAll(evicted []*module) {
	for _, m := range evicted {
		s.unload(m)
	}
}

// close unloads everything.
func (s *modules) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.loaded {
		s.unload(m)
	}
	clear(s.loaded)
}

// unload closes a module that nobody uses, with its idle instances. It may have been loaded in part only.
func (h *Host) unload(m *module) {
	ctx := context.Background()
	for in := h.pool.drop(m); in != nil; in = in.older {
		in.close(ctx)
	}
	// Errors change nothing: what cannot be closed holds nothing but memory.
	if m.code != nil {
		_ = m.code.Close(ctx)
	}
	if m.runtime != nil {
		_ = m.runtime.Close(ctx)
	}
}

// weigh estimates the memory that a module takes: its code, its parsed bytes and its snapshots.
func (m *module) weigh(parsed int) {
	m.weight = int(m.code.Size) + 2*parsed
	for _, s := range m.started {
		m.weight += s.weight()
	}
}
