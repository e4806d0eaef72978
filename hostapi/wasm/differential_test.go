package wasm_test

import (
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

const plenty = 1 << 40

// A rewritten module does what the original does, in both engines, and pays at least for what it runs.
func TestRandomPrograms(t *testing.T) {
	n := uint64(120)
	if testing.Short() {
		n = 40
	}
	list := engines(t)
	stops := map[string]int{}
	for seed := range n {
		module, sigs := generate(seed)
		p := prepare(t, module)
		exact, err := wasm.CountEach(module, wasm.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		var first []outcome
		for _, e := range list {
			before, after, counted := e.mustStart(t, module), e.mustStart(t, p.Module), e.mustStart(t, exact)
			var spent []outcome
			for f := range sigs {
				name := fmt.Sprintf("f%d", f)
				args := make([]uint64, len(sigs[f].Params))
				for i := range args {
					args[i] = uint64(seed) % 13
				}
				want := before.call(name, 0, 0, args...)
				got := after.call(name, plenty, 500, args...)
				count := counted.call(name, plenty, 500, args...)
				if !got.same(want) || !count.same(want) {
					t.Fatalf("seed %d, %s, %s:\n%v originally\n%v rewritten\n%v counted", seed, e.name, name, want, got,
						count)
				}
				if got.spent < count.spent {
					t.Fatalf("seed %d, %s: ran %d instructions for %d", seed, name, count.spent, got.spent)
				}
				stops[want.stop]++
				spent = append(spent, got)
			}
			before.close()
			after.close()
			counted.close()
			if first == nil {
				first = spent
			} else if fmt.Sprint(first) != fmt.Sprint(spent) {
				t.Fatalf("seed %d: engines differ:\n%v\n%v", seed, first, spent)
			}
		}
	}
	t.Log(stops)
	if stops[""] < int(n)/2 || len(stops) < 4 {
		t.Fatalf("programs are too much alike: %v", stops)
	}
}
