package wasm_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// FuzzPrepare uses damaged modules: none may panic, and what is accepted must be the same module for the engine, before
// and after: refused both times, or equal in everything it does.
func FuzzPrepare(f *testing.F) {
	for seed := range uint64(8) {
		module, _ := generate(seed)
		f.Add(module)
	}
	f.Add(everyOpcode())
	f.Add(module(Section(0, []byte{0}), Section(5, []byte{1, 0, 1}), Section(0, []byte("\x04name\xff"))))
	f.Fuzz(func(t *testing.T, module []byte) {
		p, err := wasm.Prepare(module, wasm.DefaultLimits())
		if err != nil {
			var r *wasm.Refusal
			if !errors.As(err, &r) || r.Check == "" || r.Error() == "" {
				t.Fatalf("not a refusal: %v", err)
			}
			return
		}
		if len(p.Module) > 20*len(module)+1000 {
			t.Fatalf("%d bytes became %d", len(module), len(p.Module))
		}
		compare(t, withoutCustom(module), p)
	})
}

// withoutCustom drops the custom sections, like Prepare: the engine refuses some because of their content.
func withoutCustom(module []byte) []byte {
	out := Header()
	for rest := module[len(out):]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		end := 1 + n + int(size)
		if rest[0] != 0 {
			out = append(out, rest[:end]...)
		}
		rest = rest[end:]
	}
	return out
}

func compare(t *testing.T, module []byte, p *wasm.Prepared) {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(256))
	defer rt.Close(ctx)
	e := engine{"interpreter", rt}
	if len(p.Info.Imports) > 0 {
		_, before := rt.CompileModule(ctx, module)
		_, after := rt.CompileModule(ctx, p.Module)
		if (before == nil) != (after == nil) {
			t.Fatalf("compiled: %v before, %v after", before, after)
		}
		return
	}
	before, errBefore := e.start(module)
	after, errAfter := e.start(p.Module)
	if (errBefore == nil) != (errAfter == nil) {
		t.Fatalf("started: %v before, %v after", errBefore, errAfter)
	}
	if errBefore != nil {
		return
	}
	for _, export := range p.Info.Exports {
		args := 0
		for _, v := range export.Type.Params {
			if v == wasm.FuncRef || v == wasm.ExternRef {
				args = -1
				break
			}
			args++
		}
		if export.Kind != wasm.KindFunc || args < 0 {
			continue
		}
		for _, v := range export.Type.Results {
			if v == wasm.FuncRef || v == wasm.ExternRef {
				return // addresses differ
			}
		}
		got := after.call(export.Name, 100_000, 100, make([]uint64, args)...)
		if got.stop == outOfFuel || got.stop == tooDeep {
			return // the original might run forever
		}
		if want := before.call(export.Name, 0, 0, make([]uint64, args)...); !got.same(want) {
			t.Fatalf("%s: %v before, %v after", export.Name, want, got)
		}
	}
}

// FuzzProgram runs valid programs of all shapes.
func FuzzProgram(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(1 << 40))
	f.Fuzz(func(t *testing.T, seed uint64) {
		module, _ := generate(seed)
		compare(t, module, prepare(t, module))
	})
}

// everyOpcode returns a module with every instruction that policies may use, in dead code, where any operands are
// valid.
func everyOpcode() []byte {
	m := &Module{}
	m.Memory(1, 1)
	m.Table(1)
	m.Global(wasm.I32, true, I32Const(0))
	m.PassiveData([]byte("x"))
	m.PassiveElements(0)
	var code []byte
	add := func(info opcode.Info, op ...byte) {
		switch info.Immediate {
		case opcode.BlockType:
			op = append(op, Void, opcode.End)
		case opcode.Labels, opcode.Indirect, opcode.Memarg, opcode.DataAndMemory, opcode.Memories,
			opcode.ElementAndTable,
			opcode.Tables:
			op = append(op, 0, 0)
		case opcode.ValueType:
			op = append(op, 1, byte(wasm.I32))
		case opcode.RefType:
			op = append(op, byte(wasm.FuncRef))
		case opcode.F32:
			op = append(op, 0, 0, 0, 0)
		case opcode.F64:
			op = append(op, 0, 0, 0, 0, 0, 0, 0, 0)
		case opcode.None:
		default:
			op = append(op, 0)
		}
		code = append(code, opcode.Block, Void, opcode.Unreachable)
		code = append(code, op...)
		code = append(code, opcode.Unreachable, opcode.End)
	}
	for op := range 256 {
		info, ok := opcode.Of(byte(op))
		if ok && byte(op) != opcode.Else && byte(op) != opcode.End {
			add(info, byte(op))
		}
		if info, ok := opcode.OfMisc(byte(op)); ok {
			add(info, opcode.Misc, byte(op))
		}
	}
	m.Func(nil, nil, Types{wasm.I32}, code)
	return m.Bytes()
}

// The engine accepts every instruction in the list, and reads it to the same end.
func TestEveryOpcode(t *testing.T) {
	module := everyOpcode()
	p := prepare(t, module)
	for _, e := range engines(t) {
		e.mustStart(t, module)
		e.mustStart(t, p.Module)
	}
	if !p.Info.Traits.ChangesTables || !p.Info.Traits.DropsSegments || !p.Info.Traits.FreshInstance() {
		t.Errorf("%+v", p.Info.Traits)
	}
}

// The engine has no instruction within the list's ranges for which the list lacks a shape: for random code that Prepare
// accepts, and random changes to it, the two never disagree.
func TestDamagedPrograms(t *testing.T) {
	n := 1500
	if testing.Short() {
		n = 300
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for i := range n {
		module, _ := generate(uint64(i % 50))
		for range 1 + rnd.IntN(3) {
			module[8+rnd.IntN(len(module)-8)] = byte(rnd.Uint32())
		}
		p, err := wasm.Prepare(module, wasm.DefaultLimits())
		if err == nil {
			accepted++
			compare(t, module, p)
		}
	}
	if accepted < n/20 {
		t.Errorf("only %d of %d were accepted", accepted, n)
	}
}
