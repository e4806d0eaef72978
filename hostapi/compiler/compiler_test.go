package compiler

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// TestMain lets this binary be its own child; package compilertest does the same for other packages.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		syscall.Exit(Main(os.Args[2:], os.Stdin, os.Stderr))
	}
	os.Exit(m.Run())
}

// kit is a compiler with a directory, and a runtime that loads what it made.
type kit struct {
	*Compiler
	t  *testing.T
	rt wazero.Runtime
}

func open(t *testing.T, o Options) *kit {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Command = []string{binary, Command}
	if o.Time == 0 {
		o.Time = 5 * time.Second
	}
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	if o.Bytes == 0 {
		o.Bytes = 1 << 30
	}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	c.wall = time.Hour // next to busy tests, a child gets less CPU time than the limit assumes
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, Config().WithCompilationCache(c.Cache()))
	t.Cleanup(func() {
		if err := errors.Join(rt.Close(ctx), c.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	return &kit{c, t, rt}
}

func (k *kit) mustCompile(module []byte) {
	k.t.Helper()
	if err := k.Compile(k.t.Context(), module); err != nil {
		k.t.Fatal(err)
	}
}

// has reports whether a module's code is kept, and checks that it runs.
func (k *kit) has(module []byte) bool {
	k.t.Helper()
	c, err := k.Load(k.t.Context(), k.rt, module)
	if err != nil {
		k.t.Fatal(err)
	}
	if c == nil {
		return false
	}
	if c.Size <= 0 {
		k.t.Errorf("machine code of %d bytes", c.Size)
	}
	in, err := k.rt.InstantiateModule(k.t.Context(), c.Module, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		k.t.Fatal(err)
	}
	if got, err := in.ExportedFunction("f").Call(k.t.Context()); err != nil || len(got) != 1 {
		k.t.Errorf("%v, %v", got, err)
	}
	if err := errors.Join(in.Close(k.t.Context()), c.Close(k.t.Context())); err != nil {
		k.t.Error(err)
	}
	return true
}

// answer returns a module whose function f returns n.
func answer(n int32) []byte {
	m := &Module{}
	m.Export("f", wasm.KindFunc, m.Func(nil, Types{wasm.I32}, nil, I32Const(n)))
	return m.Bytes()
}

func refusal(t *testing.T, err error) *plan.Refusal {
	t.Helper()
	var r *plan.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("not refused: %v", err)
	}
	return r
}

func TestCompileThenLoad(t *testing.T) {
	k := open(t, Options{})
	if k.has(answer(1)) {
		t.Error("code was there before it was made")
	}
	k.mustCompile(answer(1))
	if !k.has(answer(1)) || k.has(answer(2)) {
		t.Error("not exactly the module that was compiled is there")
	}
	if left, err := os.ReadDir(filepath.Join(k.disk.dir, stageFolder)); err != nil || len(left) > 0 {
		t.Errorf("the children left %d folders: %v", len(left), err)
	}
}

// What is not in the cache is never compiled in this process, however small it is.
func TestLoadNeverCompiles(t *testing.T) {
	k := open(t, Options{})
	if m, err := load(t.Context(), k.rt, answer(1)); m != nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v", m, err)
	}
	k.mustCompile(answer(1))
	e, other := k.only(), strings.Repeat("0", 64)
	if err := os.Rename(filepath.Join(k.disk.code, e.file), filepath.Join(k.disk.code, other)); err != nil {
		t.Fatal(err)
	}
	e.file = other // complete, but under a name that the runtime does not look for
	if k.has(answer(1)) || len(k.disk.entries) != 0 {
		t.Error("an entry made for another processor was used or stays")
	}
}

// only returns the only entry.
func (k *kit) only() *entry {
	k.t.Helper()
	if len(k.disk.entries) != 1 {
		k.t.Fatalf("%d entries", len(k.disk.entries))
	}
	return k.disk.newest.Front().Value.(*entry)
}

func TestIllTypedIsRefused(t *testing.T) {
	m := &Module{}
	m.Func(nil, Types{wasm.I32}, nil, I64Const(1))
	r := refusal(t, open(t, Options{}).Compile(t.Context(), m.Bytes()))
	if r.Check != CheckCompile || !strings.Contains(r.Detail, "i64 as result") {
		t.Errorf("%+v", r)
	}
}

// bomb is a module that admission refuses: all locals may change in each of the nested loops.
func bomb(loops, locals int) []byte {
	var code []byte
	code = append(code, bytes.Repeat(Op(opcode.Loop, Void), loops)...)
	for i := range locals {
		code = append(code, increment(uint32(i))...)
	}
	code = append(code, bytes.Repeat(slices.Concat(Op(opcode.LocalGet, 0), Op(opcode.BrIf, 0), Op(opcode.End)),
		loops)...)
	m := &Module{}
	m.Func(nil, nil, slices.Repeat(Types{wasm.I32}, locals), code)
	return m.Bytes()
}

func increment(local uint32) []byte {
	return slices.Concat(Op(opcode.LocalGet, local), I32Const(1), Op(opcode.I32Add), Op(opcode.LocalSet, local))
}

// wide is a module that needs a lot of memory: every local is stored separately in every block.
func wide(locals, ifs int) []byte {
	var code []byte
	for i := range ifs {
		local := uint32(i % locals)
		code = slices.Concat(code, Op(opcode.LocalGet, local), Op(opcode.If, Void), increment(local), Op(opcode.End))
	}
	m := &Module{}
	m.Func(nil, nil, slices.Repeat(Types{wasm.I32}, locals), code)
	return m.Bytes()
}

func TestBombsAreKilled(t *testing.T) {
	k := open(t, Options{Time: time.Second})
	if r := refusal(t, k.Compile(t.Context(), bomb(250, 1500))); r.Check != checkTime || r.Found < 900 ||
		r.Limit != 1000 {
		t.Errorf("%+v", r)
	}
	k = open(t, Options{Time: 20 * time.Second, Memory: 400 << 20})
	if r := refusal(t, k.Compile(t.Context(), wide(2000, 4000))); r.Check != checkMemory || r.Limit != 400<<20 {
		t.Errorf("%+v", r)
	}
	open(t, Options{Time: time.Second}).mustCompile(answer(1))
}

// If the caller gives up waiting, the child is stopped.
func TestGivenUp(t *testing.T) {
	k := open(t, Options{Time: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- k.Compile(ctx, bomb(250, 1500)) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
