package hostapi

import (
	"container/list"
	"context"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

// moduleKey identifies a loaded module. Modules that come with Mneme have no tenant.
type moduleKey struct {
	tenant string
	digest plan.Digest
}

// module is a loaded module. It never changes, except that its first instances set its snapshots.
type module struct {
	plan.Policy
	tenant     string // its owner
	minor      uint32 // of the ABI, as its manifest says
	runtime    wazero.Runtime
	code       *compiler.Code
	globals    []string // export names of all mutable globals
	memory     uint64   // bytes that it allows its memory to grow to
	restorable bool     // it has no state besides memory and globals
	marks      bool     // it marks what it writes to
	weight     int      // bytes of this process's memory that it uses
	instance   int      // bytes that each instance uses besides its linear memory and its stack

	mu      sync.Mutex
	started [sizeCount]*snapshot

	users   int           // running calls; like place and refused, protected by modules.mu
	place   *list.Element // nil if it is not among the loaded modules, so the last user unloads it
	refused bool          // its machine code must not be kept
}

// entryNames returns the functions that calls of the module use, as text.
func (m *module) entryNames() string {
	var names []string
	for _, f := range guestFunctions() {
		if f.needed != nil && f.required(m.Manifest.Hooks) {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, " or ")
}

// modules are the loaded modules of a host, which together use at most limit bytes of memory.
type modules struct {
	unload func(*module)
	limit  int

	mu     sync.Mutex
	loaded map[moduleKey]*module
	newest *list.List // of *module, by last use
	bytes  int
}

func newModules(limit int, unload func(*module)) *modules {
	return &modules{unload: unload, limit: limit, loaded: map[moduleKey]*module{}, newest: list.New()}
}

// find finds a module that comes with Mneme or belongs to the tenant. The lock must be held.
func (s *modules) find(tenant string, d plan.Digest) *module {
	if m := s.loaded[moduleKey{"", d}]; m != nil {
		return m
	}
	return s.loaded[moduleKey{tenant, d}]
}

// use finds a module and keeps it loaded until done. It returns nil if the module is not loaded.
func (s *modules) use(tenant string, d plan.Digest) *module {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(tenant, d)
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
	last := m.users == 0 && m.place == nil
	evicted := s.evict()
	if last {
		evicted = append(evicted, m)
	}
	s.mu.Unlock()
	s.unloadAll(evicted)
}

func (s *modules) has(tenant string, d plan.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(tenant, d) != nil
}

// refuse removes a module whose machine code must not be kept.
func (s *modules) refuse(key moduleKey) {
	s.mu.Lock()
	m := s.loaded[key]
	if m == nil {
		s.mu.Unlock()
		return
	}
	m.refused = true
	s.remove(m)
	unused := m.users == 0
	s.mu.Unlock()
	if unused {
		s.unload(m)
	}
}

func (s *modules) remove(m *module) {
	delete(s.loaded, moduleKey{m.tenant, m.Digest})
	s.newest.Remove(m.place)
	m.place = nil
	s.bytes -= m.weight
}

// add adds a module. If another call has added the same one in the meantime, it unloads this one.
func (s *modules) add(m *module) {
	s.mu.Lock()
	key := moduleKey{m.tenant, m.Digest}
	if s.loaded[key] != nil {
		s.mu.Unlock()
		s.unload(m)
		return
	}
	s.loaded[key] = m
	m.place = s.newest.PushFront(m)
	s.bytes += m.weight
	evicted := s.evict()
	s.mu.Unlock()
	s.unloadAll(evicted)
}

// evict removes modules until the rest fits: each time the least recently used one of the tenant with the most bytes,
// so that a tenant cannot displace the modules of others. Modules in use are kept, and so is the newest, which could
// otherwise never be used.
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
		s.remove(worst)
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

// unload closes an unused module and its idle instances. The module may be only partly loaded.
func (h *Host) unload(m *module) {
	ctx := context.Background()
	closeAll(h.pool.drop(m))
	// Errors do not matter: what cannot be closed holds nothing but memory.
	switch {
	case m.code == nil:
	case m.refused:
		_ = m.code.Discard(ctx)
	default:
		_ = m.code.Close(ctx)
	}
	if m.runtime != nil {
		_ = m.runtime.Close(ctx)
	}
}
