package hostapi

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The pool against a model: a list of idle instances, newest last.
func TestPoolModel(t *testing.T) {
	const seed, limit = 7, 10 * (pageBytes + 16<<10)
	random := rand.New(rand.NewPCG(seed, 0))
	p := newPool(limit)
	var model []*instance
	keys := []poolKey{{tenant: "a"}, {tenant: "b"}, {tenant: "a", size: sizeLarge}, {tenant: "b", module: &module{}}}
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
		} else if random.IntN(5) < 3 {
			pages := 1 + random.IntN(3)
			in := &instance{key: key, memory: &linearMemory{bytes: make([]byte, pages*pageBytes)}}
			var evicted []*instance
			for e := p.put(in); e != nil; e = e.older {
				evicted = append(evicted, e)
			}
			model = append(model, in)
			var want []*instance
			for sum(model) > limit {
				held := map[string]int{}
				for _, in := range model {
					held[in.key.tenant] += in.footprint()
				}
				i := slices.IndexFunc(model, func(in *instance) bool { return held[in.key.tenant]*len(held) >= sum(model) })
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
		if p.bytes != sum(model) {
			t.Fatalf("seed %d, step %d: %d bytes, want %d", seed, step, p.bytes, sum(model))
		}
	}
}

func sum(instances []*instance) (n int) {
	for _, in := range instances {
		n += in.footprint()
	}
	return n
}
