package hostapi

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// What the host adds to a bare call of the engine: the same guest, which does nothing, both ways in one run.
func BenchmarkEmptyPolicy(b *testing.B) {
	h := newHost(b, Options{})
	c := conversation(mustLoad(b, h, guest{}.build()), nil, 50)
	b.ReportAllocs()
	for b.Loop() {
		if out := h.Run(b.Context(), c); out.Status != plan.StatusOK {
			b.Fatal(out)
		}
	}
	whole := float64(b.Elapsed()) / float64(b.N)
	in := started(b, h, c)
	begin := time.Now()
	for range b.N {
		in.tank.fill(h.limits.Fuel, h.limits.Depth)
		in.stack = [4]uint64{}
		if err := in.assemble.CallWithStack(in.ctx, in.stack[:]); err != nil {
			b.Fatal(err)
		}
	}
	bare := float64(time.Since(begin)) / float64(b.N)
	b.ReportMetric(bare, "bare-ns/op")
	b.ReportMetric(whole/bare, "x-bare")
}

// What putting 192 KiB back costs, and what copying all of it would.
func BenchmarkRestore(b *testing.B) {
	h := newHost(b, Options{})
	in := started(b, h, conversation(mustLoad(b, h, guest{}.build()), nil, 50))
	whole := make([]byte, len(in.memory.bytes))
	for name, restore := range map[string]func(){
		"runs":   func() { in.restore() },
		"copied": func() { copy(in.memory.bytes, whole) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for at := requestArena; at < requestArena+4*runSize; at += runSize {
					in.memory.bytes[at] = 1
				}
				restore()
			}
		})
	}
}

// started is an instance of the call's module, for the small size.
func started(b *testing.B, h *Host, c plan.Call) *instance {
	b.Helper()
	in, ended := h.instantiate(b.Context(), poolKey{tenant: "bench", module: h.module(c.Module)})
	if ended != nil {
		b.Fatal(ended)
	}
	return in
}

// One window's worth: every shipped policy once over 50 records, each with its restore.
func BenchmarkPipeline(b *testing.B) {
	h := newHost(b, Options{})
	modules := builtins(b)
	var calls []plan.Call
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		m, err := h.Load(b.Context(), modules[name])
		if err != nil {
			b.Fatal(err)
		}
		config, err := m.Manifest.Config(nil)
		if err != nil {
			b.Fatal(err)
		}
		calls = append(calls, conversation(m.Digest, config, 50))
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range calls {
			if out := h.Run(b.Context(), c); out.Status != plan.StatusOK {
				b.Fatal(out)
			}
		}
	}
	b.ReportMetric(float64(len(calls)), "policies")
}

// Starting an instance, as the first call of a tenant does and every call of a module that cannot be restored.
func BenchmarkInstantiate(b *testing.B) {
	h := newHost(b, Options{})
	for name, code := range builtins(b) {
		c := conversation(mustLoad(b, h, code), nil, 50)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				started(b, h, c).close(b.Context())
			}
		})
	}
}
