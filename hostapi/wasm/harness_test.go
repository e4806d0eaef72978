package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// engine is one of the two ways in which wazero runs a module.
type engine struct {
	name string
	rt   wazero.Runtime
}

func engines(t testing.TB) []engine {
	ctx := context.Background()
	list := []engine{
		{"interpreter", wazero.NewRuntimeWithConfig(ctx,
			wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(256))},
		{"compiler", wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(256))},
	}
	t.Cleanup(func() {
		for _, e := range list {
			_ = e.rt.Close(ctx)
		}
	})
	return list
}

// guest is an instance of a module, rewritten or not.
type guest struct {
	mod      api.Module
	compiled wazero.CompiledModule
}

func (e engine) start(module []byte) (*guest, error) {
	ctx := context.Background()
	compiled, err := e.rt.CompileModule(ctx, module)
	if err != nil {
		return nil, err
	}
	mod, err := e.rt.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		_ = compiled.Close(ctx)
		return nil, err
	}
	return &guest{mod, compiled}, nil
}

func (e engine) mustStart(t testing.TB, module []byte) *guest {
	t.Helper()
	g, err := e.start(module)
	if err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	t.Cleanup(g.close)
	return g
}

func (g *guest) close() {
	_ = g.mod.Close(context.Background())
	_ = g.compiled.Close(context.Background())
}

// Ways in which a call ends, other than returning and the engine's own traps.
const (
	outOfFuel = "fuel"
	tooDeep   = "depth"
)

// outcome is everything that a call leaves behind and that a caller can see.
type outcome struct {
	results []uint64
	stop    string // empty if it returned
	state   string // memory and the module's own exported globals
	spent   int64
}

func (o outcome) String() string {
	return fmt.Sprintf("results %x, stop %q, state %s, spent %d", o.results, o.stop, o.state, o.spent)
}

// same compares what a module can notice itself.
func (o outcome) same(p outcome) bool {
	return fmt.Sprint(o.results, o.stop, o.state) == fmt.Sprint(p.results, p.stop, p.state)
}

// call runs an export with fuel and depth, if the module has them.
func (g *guest) call(export string, fuel, depth int64, args ...uint64) outcome {
	metered := g.mod.ExportedGlobal(wasm.TankExport) != nil
	if metered {
		tank, slice := wasm.Fill(fuel)
		g.set(wasm.TankExport, tank)
		g.set(wasm.SliceExport, slice)
		g.set(wasm.DepthExport, depth)
	}
	results, err := g.mod.ExportedFunction(export).Call(context.Background(), args...)
	o := outcome{results: results, state: g.state()}
	if err != nil {
		o.stop, _, _ = strings.Cut(err.Error(), "\n")
	}
	if metered {
		read := wasm.Reading{Tank: g.get(wasm.TankExport), Slice: g.get(wasm.SliceExport),
			Depth: g.get(wasm.DepthExport)}
		o.spent = read.Spent(fuel)
		switch {
		case err != nil && read.OutOfFuel():
			o.stop = outOfFuel
		case err != nil && read.TooDeep():
			o.stop = tooDeep
		case err == nil && (read.OutOfFuel() || read.Depth != depth):
			o.stop = fmt.Sprintf("returned with %+v", read)
		}
	}
	return o
}

func (g *guest) get(name string) int64 { return int64(g.mod.ExportedGlobal(name).Get()) }

func (g *guest) set(name string, v int64) {
	g.mod.ExportedGlobal(name).(api.MutableGlobal).Set(uint64(v))
}

func (g *guest) state() string {
	h := fnv.New64a()
	if len(g.mod.ExportedMemoryDefinitions()) > 0 {
		mem := g.mod.Memory()
		b, _ := mem.Read(0, mem.Size())
		h.Write(b)
		fmt.Fprint(h, len(b))
	}
	for i := range 8 {
		if v := g.mod.ExportedGlobal(fmt.Sprintf("g%d", i)); v != nil {
			fmt.Fprint(h, v.Get(), ",")
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

func prepare(t testing.TB, module []byte) *wasm.Prepared {
	t.Helper()
	p, err := wasm.Prepare(module, wasm.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// refusal returns the check that a module fails.
func refusal(t testing.TB, module []byte, lim wasm.Limits) *wasm.Refusal {
	t.Helper()
	p, err := wasm.Prepare(module, lim)
	var r *wasm.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("accepted (error %v)", err)
	}
	if p != nil {
		t.Fatal("refused, and yet there is a module")
	}
	return r
}
