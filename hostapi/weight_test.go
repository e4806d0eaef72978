package hostapi

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/hostile"
)

// heap returns the size of the process's objects in bytes, after everything that can be freed was.
func heap() int {
	for range 3 { // finalizers release what the next collection frees
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// shapes returns policies that do nothing and are large, each in another way. The number makes each a different module.
func shapes() map[string]func(n int) []byte {
	policy := func(n int, members string, grow func(m *wasmtest.Module)) []byte {
		i32 := func(n int) wasmtest.Types { return slices.Repeat(wasmtest.Types{wasm.I32}, n) }
		var m wasmtest.Module
		m.Table(16_384)
		m.Memory(16, 16)
		abi := m.Func(nil, i32(1), nil, wasmtest.I32Const(1<<16))
		m.Export("memory", wasm.KindMemory, 0)
		m.Export("mneme_abi", wasm.KindFunc, abi)
		m.Export("mneme_arena", wasm.KindFunc, m.Func(i32(2), i32(1), nil, wasmtest.I32Const(1<<16+1<<19),
			wasmtest.I32Const(1<<16), wasmtest.Op(opcode.LocalGet, 0), []byte{opcode.Select}))
		m.Export("mneme_assemble", wasm.KindFunc, m.Func(i32(4), i32(1), nil, wasmtest.I32Const(0)))
		m.Custom(wasm.ManifestSection,
			fmt.Appendf(nil, `{"abi":"1.0","hooks":["assemble"],"version":"%d"%s}`, n, members))
		if grow != nil {
			grow(&m)
		}
		return m.Bytes()
	}
	plain := func(members string) func(n int) []byte {
		return func(n int) []byte { return policy(n, members, nil) }
	}
	grown := func(grow func(m *wasmtest.Module)) func(n int) []byte {
		return func(n int) []byte { return policy(n, "", grow) }
	}
	var settings []string
	for i := range maxSettings {
		settings = append(settings, fmt.Sprintf(`"setting %d":{"type":"string","enum":["a","b","c","d"]}`, i))
	}
	return map[string]func(n int) []byte{
		"small":    plain(""),
		"settings": plain(`,"config":{` + strings.Join(settings, ",") + `}`),
		"tests":    plain(`,"tests":[` + strings.Repeat(`{"messages":[]},`, 10_000) + `{}]`),
		"globals": grown(func(m *wasmtest.Module) {
			for range 990 {
				m.Global(wasm.I64, true, wasmtest.I64Const(1))
			}
		}),
		"segments": grown(func(m *wasmtest.Module) {
			for range 50_000 {
				m.Data(8, []byte{1})
			}
		}),
		"elements": grown(func(m *wasmtest.Module) { m.Elements(0, make([]uint32, 16_384)...) }),
		"functions": grown(func(m *wasmtest.Module) {
			for range 5_000 {
				m.Func(nil, nil, nil)
			}
		}),
	}
}

// TestWeights checks that modules and idle instances use at most what is accounted for them, and not much less.
func TestWeights(t *testing.T) {
	limits := DefaultLimits()
	limits.IdleBytes *= shares
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, Options{Limits: limits})
			call := func(n int) {
				m, err := h.Load(t.Context(), "t", shape(n))
				if err != nil {
					t.Fatal(err)
				}
				if out := h.Run(t.Context(), twoRecords(m.Digest)); out.Status != plan.StatusOK {
					t.Fatalf("%+v", out)
				}
			}
			call(-1)
			const modules = 8
			before, accounted := heap(), h.modules.bytes+h.pool.bytes
			for n := range modules {
				call(n)
			}
			took, weight := (heap()-before)/modules, (h.modules.bytes+h.pool.bytes-accounted)/modules
			// Machine code is not on the heap, but it is accounted for.
			code := int(h.modules.newest.Front().Value.(*module).code.Size)
			t.Logf("%d KiB on the heap, %d KiB accounted, %d KiB of it machine code", took>>10, weight>>10, code>>10)
			if took > weight-code+16<<10 || weight-code > 4*took {
				t.Errorf("%d bytes on the heap for each, %d accounted", took, weight-code)
			}
		})
	}
}

// TestStackIsSeen checks that a stack grown by deep calls is seen, and that an idle instance does not keep it.
func TestStackIsSeen(t *testing.T) {
	h := newHost(t, Options{})
	attack, _ := hostile.Named("recursion-wide")
	c := attackRequest(mustLoad(t, h, attack.Build()), hostile.Records)
	if out := h.Run(t.Context(), c); out.Status != plan.StatusDepth {
		t.Fatalf("%+v", out)
	}
	key := poolKey{c.Tenant, h.modules.find(c.Tenant, c.Module), sizeSmall}
	in := h.pool.take(key)
	if in == nil {
		t.Fatal("the instance was not kept")
	}
	if n := in.entries[0].stack.bytes(); n < 10<<10 || n > keptStack {
		t.Errorf("an idle instance has a stack of %d bytes", n)
	}
	if l, err := layoutOf(c.Request); err != nil || in.run(&c, l, time.Now()).Status != plan.StatusDepth {
		t.Fatal("another outcome")
	}
	if n := in.entries[0].stack.bytes(); n <= keptStack {
		t.Errorf("after 500 wide calls the stack has %d bytes: what is seen is not the stack", n)
	}
	in.close(t.Context())
}

// TestCampaignIdleInstances checks that tenants that made one call each cost what is accounted for them, and nothing
// measurable once they are idle.
func TestCampaignIdleInstances(t *testing.T) {
	h := newHost(t, Options{NewTimer: stoppedTimer})
	c := twoRecords(mustLoad(t, h, guest{}.build()))
	call := func(i int) {
		c.Tenant = fmt.Sprint("tenant ", i)
		if out := h.Run(t.Context(), c); out.Status != plan.StatusOK {
			t.Fatalf("%+v", out)
		}
	}
	call(-1)
	before := heap()
	tenants := campaign.Size(200, 20_000)
	for i := range tenants {
		call(i)
	}
	busy, accounted := heap()-before, h.pool.bytes
	if busy > accounted+1<<20 || accounted > h.limits.IdleBytes {
		t.Errorf("%d bytes on the heap, %d accounted, %d possible", busy, accounted, h.limits.IdleBytes)
	}
	h.sweep()
	h.sweep()
	idle := heap() - before
	t.Logf("%d tenants: %d KiB while they are active, %d KiB of them accounted; %d KiB once they are idle", tenants,
		busy>>10, accounted>>10, idle>>10)
	if idle > 1<<20 || h.pool.bytes != 0 || h.pool.holding != 0 {
		t.Errorf("%d bytes on the heap, %d accounted, of %d tenants", idle, h.pool.bytes, h.pool.holding)
	}
}

// TestIdleInstancesGo checks that an instance that is not used between two sweeps is closed.
func TestIdleInstancesGo(t *testing.T) {
	h := newHost(t, Options{NewTimer: stoppedTimer})
	c := twoRecords(mustLoad(t, h, guest{}.build()))
	run := func() {
		t.Helper()
		if out := h.Run(t.Context(), c); out.Status != plan.StatusOK {
			t.Fatalf("%+v", out)
		}
	}
	run()
	h.sweep()
	if h.pool.kinds() != 1 || !h.pool.watched {
		t.Error("an instance that was just used is gone, or is not watched")
	}
	run()
	h.sweep()
	if h.pool.kinds() != 1 {
		t.Error("an instance that was used since the sweep is gone")
	}
	h.sweep()
	if h.pool.kinds() != 0 || h.pool.bytes != 0 || h.pool.watched {
		t.Errorf("%d idle instances of %d bytes", h.pool.kinds(), h.pool.bytes)
	}
	run()
	if !h.pool.watched {
		t.Error("nobody watches")
	}
}

// TestTenantsShareNoModule checks that the same bytes are compiled again for each tenant, so that no upload is faster
// because of another tenant's, and that only their tenant finds them.
func TestTenantsShareNoModule(t *testing.T) {
	h := newHost(t, Options{})
	code := guest{}.build()
	own := map[string]*module{}
	for _, tenant := range []string{"a", "b"} {
		m, err := h.Load(t.Context(), tenant, code)
		if err != nil {
			t.Fatal(err)
		}
		own[tenant] = h.modules.find(tenant, m.Digest)
	}
	digest := own["a"].Digest
	if own["a"] == own["b"] || h.Loaded("c", digest) || len(h.modules.loaded) != 2 {
		t.Errorf("%d modules", len(h.modules.loaded))
	}
	prepared, err := h.prepare(code)
	if err != nil {
		t.Fatal(err)
	}
	for tenant, want := range map[string]bool{"a": true, "b": true, "c": false} {
		if got := h.compiler.Has(ownedBy(tenant, slices.Clone(prepared.Module))); got != want {
			t.Errorf("the machine code of tenant %s is there: %t", tenant, got)
		}
	}
	h.Refuse("a", digest)
	if h.Loaded("a", digest) || !h.Loaded("b", digest) ||
		h.compiler.Has(ownedBy("a", slices.Clone(prepared.Module))) {
		t.Error("the module of tenant a is there, or that of tenant b is not")
	}
}
