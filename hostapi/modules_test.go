package hostapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler"
)

// says is a guest whose author's error is its number, so that no two are the same module.
func says(n int32) []byte { return guest{assemble: konst(-1 - n)}.build() }

func TestModulesMakeRoom(t *testing.T) {
	var unloaded []string
	s := newModules(100, func(m *module) { unloaded = append(unloaded, m.Manifest.Name) })
	add := func(tenant, name string, weight int) {
		p := plan.Policy{Digest: plan.Digest{name[0]}, Manifest: plan.Manifest{Name: name}}
		s.add(&module{Policy: p, tenant: tenant, weight: weight})
	}
	expect := func(names string) {
		t.Helper()
		if got := strings.Join(unloaded, ""); got != names {
			t.Errorf("unloaded %q, want %q", got, names)
		}
		unloaded = nil
	}
	add("small", "a", 10)
	add("big", "b", 30)
	add("big", "c", 30)
	add("big", "d", 30)
	expect("")
	if m := s.use("big", plan.Digest{'b'}); m != nil {
		s.done(m)
	}
	add("big", "e", 30)
	expect("c") // b was used since, and a belongs to another tenant
	b, d := s.use("big", plan.Digest{'b'}), s.use("big", plan.Digest{'d'})
	add("big", "f", 30)
	expect("e") // b and d are in use
	add("big", "g", 100)
	expect("fa") // modules in use and the newest one are kept
	s.done(b)
	expect("b") // no longer
	s.done(d)
	expect("d")
	add("big", "g", 10) // exists already
	expect("g")
	if s.has("small", plan.Digest{'a'}) || !s.has("big", plan.Digest{'g'}) || s.has("small", plan.Digest{'g'}) ||
		s.bytes != 100 {
		t.Errorf("%d bytes, %d modules", s.bytes, len(s.loaded))
	}
}

// Unloading a module closes its idle instances and is reported, and the module can be loaded again from the cache.
func TestUnloadedModulesComeBack(t *testing.T) {
	limits := DefaultLimits()
	limits.CodeBytes = 1
	h := newHost(t, Options{Limits: limits})
	first := twoRecords(mustLoad(t, h, says(1)))
	if out := h.Run(t.Context(), first); out.Status != plan.StatusAuthorError || !h.Loaded("t", first.Module) {
		t.Fatalf("%+v", out)
	}
	ok := twoRecords(mustLoad(t, h, guest{}.build()))
	if h.Loaded("t", first.Module) || !h.Loaded("t", ok.Module) {
		t.Error("both are loaded, or the wrong one")
	}
	if out := h.Run(t.Context(), ok); out.Status != plan.StatusOK || h.pool.kinds() != 1 {
		t.Errorf("%+v", out)
	}
	if out := h.Run(t.Context(), first); out.Status != plan.StatusUnavailable {
		t.Errorf("%+v", out)
	}
	mustLoad(t, h, says(1))
	if h.pool.kinds() != 0 || h.pool.bytes != 0 {
		t.Error("an unloaded module has idle instances")
	}
	if out := h.Run(t.Context(), first); out.Status != plan.StatusAuthorError {
		t.Errorf("%+v", out)
	}
}

// Modules are loaded and unloaded while calls use them.
func TestUnloadingUnderCalls(t *testing.T) {
	limits := DefaultLimits()
	limits.CodeBytes, limits.Calls = 1, 4
	h := newHost(t, Options{Limits: limits})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 20 {
				n := int32((worker + i) % 3)
				c := twoRecords(mustLoad(t, h, says(n)))
				c.Tenant = fmt.Sprint("tenant", worker)
				out := h.Run(context.Background(), c)
				unloaded := out.Status == plan.StatusUnavailable
				if !unloaded && !strings.Contains(out.Detail, fmt.Sprint("returned ", -1-n)) {
					t.Errorf("%+v", out)
				}
			}
		})
	}
	wg.Wait()
	if n := len(h.modules.loaded); n > 1 {
		t.Errorf("%d modules are loaded", n)
	}
}

// If a compiler exits successfully but leaves nothing, the server must not compile by itself.
func TestNothingIsCompiledHere(t *testing.T) {
	for command, want := range map[string]string{"true": "left", "false": "exit status 1"} {
		h, err := New(Options{Compiler: []string{command}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Load(t.Context(), "t", says(1)); err == nil || h.Loaded("t", plan.Digest{}) {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a host without a compiler")
	}
}

// A tenant's uploads are compiled one at a time. Another tenant's do not wait for them, nor does a module whose code
// exists.
func TestCompilingWaitsForOnesOwn(t *testing.T) {
	limits := DefaultLimits()
	limits.Calls, limits.Compiles = 2, 2
	h := newHost(t, Options{Limits: limits})
	known := mustLoad(t, h, says(1))
	if err := h.compiles.Enter(t.Context(), "t"); err != nil { // like an upload that takes long
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() { _, err := h.Load(ctx, "t", says(2)); waiting <- err }()
	if m, err := h.Load(t.Context(), "t", says(1)); err != nil || m.Digest != known {
		t.Errorf("a known module: %v", err)
	}
	if _, err := h.Load(t.Context(), "other", says(3)); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	h.compiles.Leave("t")
	if _, err := h.Load(t.Context(), "t", says(2)); err != nil {
		t.Errorf("free again: %v", err)
	}
}

func TestBombIsRefusedByName(t *testing.T) {
	limits := DefaultLimits()
	limits.CompileMemory = 1 << 20 // less than any child needs, in place of a module that needs more
	h := newHost(t, Options{Limits: limits})
	_, err := h.Load(t.Context(), "t", says(1))
	var refusal *plan.Refusal
	if !errors.As(err, &refusal) || !strings.HasPrefix(refusal.Check, compiler.CheckCompile) {
		t.Errorf("%v", err)
	}
}
