package hostile

import (
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	op "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

const own = 1024 // an address of the guest's own memory

func load(at int32) []byte { return code(I32Const(at), Op(op.I32Load, 2, 0)) }

func store(at int32, value []byte) []byte { return code(I32Const(at), value, Op(op.I32Store, 2, 0)) }

// keepers returns modules that count their calls, each in a different place, and insert the count by their plan.
func keepers() []Attack {
	bump := func(get []byte) []byte { return code(get, I32Const(1), Op(op.I32Add)) }
	keeper := func(name, doc string, build func(*guest) (value, after []byte)) Attack {
		return Attack{Name: name, Doc: doc, Status: plan.StatusOK, Build: func() []byte {
			g := &guest{locals: i32s(2)}
			value, after := build(g)
			return showing(g, value, after)
		}}
	}
	memory := func(at int32) func(*guest) ([]byte, []byte) {
		return func(*guest) ([]byte, []byte) { return load(at), store(at, bump(load(at))) }
	}
	return []Attack{
		keeper("keeps-in-memory", "counts its calls in memory", memory(own)),
		keeper("keeps-in-request", "counts its calls behind the request", memory(requestArena+60<<10)),
		keeper("keeps-in-plan", "counts its calls behind its plan", memory(planArena+30<<10)),
		keeper("keeps-in-last-word", "counts its calls in the last word of memory", memory(arenaPages*page-4)),
		keeper("keeps-in-global", "counts its calls in a global", func(g *guest) ([]byte, []byte) {
			at := g.Global(wasm.I32, true, I32Const(0))
			return Op(op.GlobalGet, at), code(bump(Op(op.GlobalGet, at)), Op(op.GlobalSet, at))
		}),
		keeper("keeps-in-table", "notes its first call by emptying a table's entry", func(g *guest) ([]byte, []byte) {
			g.Table(1)
			g.Elements(0, g.Func(nil, nil, nil))
			return code(I32Const(0), Op(op.TableGet, 0), Op(op.RefIsNull)),
				code(I32Const(0), Op(op.RefNull, uint32(wasm.FuncRef)), Op(op.TableSet, 0))
		}),
		keeper("keeps-in-reference", "notes its first call in a global that holds a reference",
			func(g *guest) ([]byte, []byte) {
				at := g.Global(wasm.FuncRef, true, Op(op.RefNull, uint32(wasm.FuncRef)))
				f := g.Func(nil, nil, nil)
				g.Table(1)
				g.Elements(0, f)
				return code(Op(op.GlobalGet, at), Op(op.RefIsNull)), code(Op(op.RefFunc, f), Op(op.GlobalSet, at))
			}),
		keeper("keeps-in-segment", "notes its first call by dropping a segment, and then traps when it reads it",
			func(g *guest) ([]byte, []byte) {
				segment := g.PassiveData([]byte{1, 0, 0, 0})
				return code(I32Const(own), I32Const(0), I32Const(4), Misc(op.MiscMemoryInit, segment, 0), load(own)),
					Misc(op.MiscDataDrop, segment)
			}),
		keeper("keeps-in-size", "counts its calls in the size of its memory", func(*guest) ([]byte, []byte) {
			return Op(op.MemorySize, 0), code(I32Const(1), Op(op.MemoryGrow, 0), Op(op.Drop))
		}),
		keeper("keeps-in-randomness", "counts its calls by how far the random sequence has come",
			func(g *guest) ([]byte, []byte) {
				random := g.wasi("random_get", 2, i32s(1))
				return code(call(random, own, 4), Op(op.Drop), load(own)), nil
			}),
		keeper("keeps-in-room", "tells its calls apart by how much memory there is left: grows until it is refused",
			func(*guest) ([]byte, []byte) {
				return code(Op(op.Loop, Void), I32Const(8), Op(op.MemoryGrow, 0), I32Const(-1), Op(op.I32Xor),
					Op(op.BrIf, 0), Op(op.End), Op(op.MemorySize, 0)), nil
			}),
	}
}

// showing completes a policy that inserts a number, as eight letters, and then runs more code. Its assemble needs two
// i32 locals.
func showing(g *guest, value, after []byte) []byte {
	const digits, number, at = 8, firstLocal, firstLocal + 1
	b := planOf(item{op: opInsert, text: "........", reason: "shown"})
	text := int32(planArena + planHeader + planOp)
	g.Data(planArena, b)
	letter := code(Op(op.LocalGet, number), I32Const(15), Op(op.I32And), I32Const('a'), Op(op.I32Add))
	return g.bytes(value, Op(op.LocalSet, number), after,
		Op(op.Loop, Void),
		Op(op.LocalGet, at), I32Const(text), Op(op.I32Add), letter, Op(0x3a, 0, 0), // i32.store8
		Op(op.LocalGet, number), I32Const(4), Op(0x76), Op(op.LocalSet, number), // i32.shr_u
		increment(at), Op(op.LocalGet, at), I32Const(digits), Op(op.I32LtU), Op(op.BrIf, 0), Op(op.End),
		result(int32(len(b))))
}

// sleepers returns modules that behave while a request is as small as those of self-tests.
func sleepers() []Attack {
	const recordCount = 16 // its offset in the request
	sleeper := func(name, doc string, status plan.Status, words string, attack []byte) Attack {
		return Attack{Name: name, Doc: "behaves on its self-tests, then " + doc, Status: status, Words: words,
			Build: func() []byte {
				return (&guest{}).bytes(I32Const(SelfTestRecords), Op(op.LocalGet, paramRequest), Op(op.I32Load, 2, recordCount),
					Op(op.I32LtU), Op(op.If, Void), attack, Op(op.End), result(0))
			}}
	}
	return []Attack{
		sleeper("sleeper-loop", "loops without end", plan.StatusFuelExhausted, "", forever()),
		sleeper("sleeper-trap", "traps", plan.StatusTrap, "unreachable", Op(op.Unreachable)),
		sleeper("sleeper-plan", "answers a plan that is none", plan.StatusBadPlan, "magic",
			code(result(planHeader), Op(op.Return))),
	}
}
