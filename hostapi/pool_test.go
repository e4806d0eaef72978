package hostapi

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Compares the pool with a model: a list of idle instances, newest last.
func TestPoolModel(t *testing.T) {
	const seed, limit = 7, 16 * (pageBytes + 16<<10)
	random := rand.New(rand.NewPCG(seed, 0))
	p := newPool(limit)
	var model []*instance
	watched := false
	one, other := &module{}, &module{}
	keys := []poolKey{{tenant: "a", module: one}, {tenant: "b", module: one},
		{tenant: "a", module: one, size: sizeLarge}, {tenant: "b", module: other}, {tenant: "c", module: other},
		{tenant: "d", module: one}, {tenant: "e", module: one}, {tenant: "f", module: one}}
	for step := range 20_000 {
		key := keys[random.IntN(len(keys))]
		if step%500 == 499 {
			var dropped []*instance
			for d := p.drop(key.module); d != nil; d = d.older {
				dropped = append(dropped, d)
			}
			left := slices.DeleteFunc(slices.Clone(model),
				func(in *instance) bool { return in.key.module == key.module })
			if len(dropped) != len(model)-len(left) {
				t.Fatalf("seed %d, step %d: dropped %d of %d", seed, step, len(dropped), len(model)-len(left))
			}
			model = left
		} else if step%200 == 199 {
			var dropped []*instance
			list, watch := p.sweep()
			for d := list; d != nil; d = d.older {
				dropped = append(dropped, d)
			}
			var left, want []*instance
			for _, in := range model {
				if in.sweep == p.sweeps-1 {
					left = append(left, in)
				} else {
					want = append(want, in)
				}
			}
			slices.Reverse(dropped)
			if !slices.Equal(dropped, want) || watch != (len(left) > 0) {
				t.Fatalf("seed %d, step %d: swept %d of %d, watch %t", seed, step, len(dropped), len(want), watch)
			}
			model, watched = left, watch
		} else if random.IntN(5) < 3 {
			pages := 1 + random.IntN(3)
			in := &instance{key: key, memory: &linearMemory{bytes: make([]byte, pages*pageBytes)}}
			var evicted []*instance
			list, watch := p.put(in)
			for e := list; e != nil; e = e.older {
				evicted = append(evicted, e)
			}
			if watch == watched {
				t.Fatalf("seed %d, step %d: a sweep is due: %t, and is asked for: %t", seed, step, watched, watch)
			}
			watched = true
			model = append(model, in)
			var want []*instance
			for held := 0; ; held = 0 {
				for _, other := range model {
					if other.key.tenant == key.tenant {
						held += other.footprint()
					}
				}
				if held <= limit/shares {
					break
				}
				i := slices.IndexFunc(model, func(in *instance) bool { return in.key.tenant == key.tenant })
				want, model = append(want, model[i]), slices.Delete(model, i, i+1)
			}
			for sum(model) > limit {
				held := map[string]int{}
				for _, in := range model {
					held[in.key.tenant] += in.footprint()
				}
				i := slices.IndexFunc(model, func(in *instance) bool {
					return held[in.key.tenant]*len(held) >= sum(model)
				})
				want, model = append(want, model[i]), slices.Delete(model, i, i+1)
			}
			slices.Reverse(evicted)
			if !slices.Equal(evicted, want) {
				t.Fatalf("seed %d, step %d: evicted %d, want the %d oldest of the heavy", seed, step, len(evicted),
					len(want))
			}
		} else {
			var want *instance
			for i := len(model) - 1; i >= 0; i-- {
				if model[i].key == key {
					want = model[i]
					model = slices.Delete(model, i, i+1)
					break
				}
			}
			if got := p.take(key); got != want {
				t.Fatalf("seed %d, step %d: took another instance than the newest of its key", seed, step)
			}
		}
		tenants := map[string]bool{}
		for _, in := range model {
			tenants[in.key.tenant] = true
		}
		if p.holding != len(tenants) {
			t.Fatalf("seed %d, step %d: %d tenants hold something, want %d", seed, step, p.holding, len(tenants))
		}
		if p.bytes != sum(model) {
			t.Fatalf("seed %d, step %d: %d bytes, want %d", seed, step, p.bytes, sum(model))
		}
	}
}

// TestPoolTidies expects nothing to be left of an instance that is too large to keep.
func TestPoolTidies(t *testing.T) {
	p := newPool(0)
	in := &instance{key: poolKey{tenant: "a", module: &module{}}, memory: &linearMemory{bytes: make([]byte, pageBytes)}}
	if evicted, watch := p.put(in); evicted != in || !watch {
		t.Errorf("evicted %p, want %p; a sweep is asked for: %t", evicted, in, watch)
	}
	if dropped, watch := p.sweep(); dropped != nil || watch || len(p.shelves)+len(p.holders) > 0 {
		t.Errorf("dropped %p, a sweep is due: %t, %d shelves and %d holders stay", dropped, watch, len(p.shelves),
			len(p.holders))
	}
}

// kinds returns how many keys have idle instances.
func (p *pool) kinds() (n int) {
	for _, s := range p.shelves {
		if s.top != nil {
			n++
		}
	}
	return n
}

func sum(instances []*instance) (n int) {
	for _, in := range instances {
		n += in.footprint()
	}
	return n
}

// putBack fails the test if an idle instance differs from how it was after its start. It compares all of its memory,
// not only what it has marked. It runs for every test's host when the test ends.
func (h *Host) putBack(t testing.TB) {
	t.Helper()
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	for in := h.pool.newest; in != nil; in = in.older {
		globals := make([]uint64, len(in.globals))
		for i, g := range in.globals {
			globals[i] = g.Get()
		}
		if !in.start.matches(in.memory.bytes, globals) {
			t.Errorf("an instance of module %x, size %d, waits with memory that is not as after its start",
				in.key.module.Digest[:4], in.key.size)
		}
	}
}
