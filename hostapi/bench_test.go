package hostapi

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/enginetest/benchtest"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// What the host adds to a bare call of the engine: the same guest, which does nothing, is called both ways.
func BenchmarkEmptyPolicy(b *testing.B) {
	h := newHost(b, Options{NewTimer: systemTimer})
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
		in.tank.fill(h.limits.Fuel, h.limits.Depth, h.limits.CallTime, h.clock())
		in.stack = [4]uint64{}
		if err := in.entries[0].CallWithStack(in.ctx, in.stack[:]); err != nil {
			b.Fatal(err)
		}
	}
	bare := float64(time.Since(begin)) / float64(b.N)
	b.ReportMetric(bare, "bare-ns/op")
	b.ReportMetric(whole/bare, "x-bare")
}

// The cost of restoring 192 KiB, and of copying all of it.
func BenchmarkRestore(b *testing.B) {
	h := newHost(b, Options{NewTimer: systemTimer})
	in := started(b, h, conversation(mustLoad(b, h, guest{}.build()), nil, 50))
	whole := make([]byte, len(in.memory.bytes))
	for name, restore := range map[string]func(){
		"runs":   func() { in.restore() },
		"copied": func() { copy(in.memory.bytes, whole) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for at := requestArena; at < requestArena+4*wasm.CardBytes; at += wasm.CardBytes {
					in.memory.bytes[at] = 1
				}
				restore()
			}
		})
	}
}

// started returns an instance of the call's module in the small size.
func started(b *testing.B, h *Host, c plan.Call) *instance {
	b.Helper()
	in, ended := h.instantiate(b.Context(), poolKey{tenant: "bench", module: h.modules.find(c.Tenant, c.Module)})
	if ended != nil {
		b.Fatal(ended)
	}
	return in
}

// One window's work: every built-in policy once over 50 records, in the sandbox and, in the same run, bare: the same
// modules in one instance each that is never restored, without fuel, slots or time limits. Request and plan are encoded
// and decoded in both.
func BenchmarkPipeline(b *testing.B) {
	h := newHost(b, Options{NewTimer: systemTimer})
	modules := builtins(b)
	var calls []plan.Call
	var bares []*bare
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		m, err := h.Load(b.Context(), "t", modules[name])
		if err != nil {
			b.Fatal(err)
		}
		config, err := m.Manifest.Config(nil)
		if err != nil {
			b.Fatal(err)
		}
		calls = append(calls, conversation(m.Digest, config, 50))
		bares = append(bares, newBare(b, modules[name]))
	}
	m := benchtest.Compare(b, 20, func(n int) {
		for range n {
			for _, c := range calls {
				if out := h.Run(b.Context(), c); out.Status != plan.StatusOK {
					b.Fatal(out)
				}
			}
		}
	}, func(n int) {
		for range n {
			for i, c := range calls {
				bares[i].run(b, c)
			}
		}
	})
	b.ReportMetric(m.Subject.Seconds()*1e6, "sandbox-µs")
	b.ReportMetric(m.Baseline.Seconds()*1e6, "bare-µs")
	b.ReportMetric(m.Ratio, "x-bare")
}

// bare is a policy without a sandbox.
type bare struct {
	in       *instance
	memory   api.Memory
	assemble api.Function
}

func newBare(b *testing.B, code []byte) *bare {
	b.Helper()
	ctx := b.Context()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	b.Cleanup(func() { _ = rt.Close(context.Background()) })
	for name, functions := range map[string][]hostFunction{hostModule: mnemeFunctions(), wasiModule: wasiFunctions()} {
		if err := instantiateHost(ctx, rt, name, functions); err != nil {
			b.Fatal(err)
		}
	}
	guest, err := rt.InstantiateWithConfig(ctx, code, wazero.NewModuleConfig().WithStartFunctions(exportInitialize))
	if err != nil {
		b.Fatal(err)
	}
	p := &bare{in: &instance{reasons: reasons{}}, memory: guest.Memory(),
		assemble: guest.ExportedFunction(exportAssemble)}
	for kind, at := range map[uint64]*uint32{arenaRequest: &p.in.requests, arenaPlan: &p.in.plans} {
		size := uint64(sizeSmall.request())
		if kind == arenaPlan {
			size = uint64(sizeSmall.plan())
		}
		result, err := guest.ExportedFunction(exportArena).Call(ctx, kind, size)
		if err != nil {
			b.Fatal(err)
		}
		*at = uint32(result[0])
	}
	return p
}

func (p *bare) run(b *testing.B, c plan.Call) {
	l, err := layoutOf(c.Request)
	if err != nil {
		b.Fatal(err)
	}
	memory, _ := p.memory.Read(0, p.memory.Size())
	if err := encode(memory[p.in.requests:], c.Request, l); err != nil {
		b.Fatal(err)
	}
	stack := [4]uint64{uint64(p.in.requests), uint64(l.end), uint64(p.in.plans), uint64(sizeSmall.plan())}
	if err := p.assemble.CallWithStack(b.Context(), stack[:]); err != nil {
		b.Fatal(err)
	}
	if _, err := decode(memory[p.in.plans:][:stack[0]], asked{minor: abiMinor, maxText: DefaultLimits().InsertedBytes}, p.in.reasons); err != nil {
		b.Fatal(err)
	}
}

// The cost of starting an instance, which the first call of a tenant does, and every call of a module that cannot be
// restored.
func BenchmarkInstantiate(b *testing.B) {
	h := newHost(b, Options{NewTimer: systemTimer})
	for name, code := range builtins(b) {
		c := conversation(mustLoad(b, h, code), nil, 50)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				started(b, h, c).close(b.Context())
			}
		})
	}
}
