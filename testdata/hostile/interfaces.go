package hostile

import (
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
	op "github.com/seed-0906e6bc/mneme/hostapi/wasm/opcode"
	. "github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// interfaces returns modules with unknown imports, missing exports, or a bad start.
func interfaces() []Attack {
	imports := func(module, name string, params, results Types) func() []byte {
		return func() []byte {
			g := &guest{}
			g.Import(module, name, params, results)
			return g.bytes(result(0))
		}
	}
	const wasi = "wasi_snapshot_preview1"
	i32 := Types{wasm.I32}
	pathOpen := Types{wasm.I32, wasm.I32, wasm.I32, wasm.I32, wasm.I32, wasm.I64, wasm.I64, wasm.I32, wasm.I32}
	arena := func(parts ...[]byte) func() []byte {
		return func() []byte { return (&guest{arena: code(parts...)}).bytes(result(0)) }
	}
	return []Attack{
		{Name: "import-unknown", Doc: "imports what nobody offers", Check: "imports", Words: `"env"."system"`,
			Build: imports("env", "system", i32, i32)},
		{Name: "import-signature", Doc: "imports `text` with another signature", Check: "imports", Words: "not (i32",
			Build: imports("mneme", "text", Types{wasm.I64}, i32)},
		{Name: "import-memory", Doc: "imports somebody else's memory", Check: "import_kinds",
			Build: func() []byte {
				g := &guest{}
				g.ImportRaw("mneme", "memory", byte(wasm.KindMemory), 0, 1)
				return g.bytes(result(0))
			}},
		{Name: "wasi-files", Doc: "opens a file", Check: "imports", Words: "path_open",
			Build: imports(wasi, "path_open", pathOpen, i32)},
		{Name: "wasi-directories", Doc: "lists a directory", Check: "imports", Words: "fd_readdir",
			Build: imports(wasi, "fd_readdir", Types{wasm.I32, wasm.I32, wasm.I32, wasm.I64, wasm.I32}, i32)},
		{Name: "wasi-read", Doc: "reads from standard input", Check: "imports", Words: "fd_read",
			Build: imports(wasi, "fd_read", i32s(4), i32)},
		{Name: "wasi-accept", Doc: "accepts connections", Check: "imports", Words: "sock_accept",
			Build: imports(wasi, "sock_accept", i32s(3), i32)},
		{Name: "wasi-send", Doc: "sends to a socket", Check: "imports", Words: "sock_send",
			Build: imports(wasi, "sock_send", i32s(5), i32)},
		{Name: "wasi-raise", Doc: "raises a signal", Check: "imports", Words: "proc_raise",
			Build: imports(wasi, "proc_raise", i32, i32)},
		{Name: "export-signature", Doc: "returns an i64 from mneme_assemble", Check: "exports", Words: "mneme_assemble",
			Build: func() []byte { return (&guest{results: Types{wasm.I64}}).bytes(I64Const(0)) }},
		{Name: "export-missing", Doc: "has no mneme_arena", Check: "exports", Words: "mneme_arena",
			Build: func() []byte { return (&guest{leave: "mneme_arena"}).bytes(result(0)) }},
		{Name: "export-memory", Doc: "keeps its memory to itself", Check: "exports", Words: "memory",
			Build: func() []byte { return (&guest{leave: "memory"}).bytes(result(0)) }},
		{Name: "manifest-missing", Doc: "has an empty manifest", Check: "manifest",
			Build: func() []byte { return (&guest{manifest: " "}).bytes(result(0)) }},
		{Name: "manifest-deep", Doc: "nests its manifest 100,000 deep", Check: "manifest", Large: true,
			Build: func() []byte {
				deep := string(times(100_000, []byte("[")))
				return (&guest{manifest: `{"abi":"1.0","tests":` + deep}).bytes(result(0))
			}},
		{Name: "initialize-loop", Doc: "loops without end in _initialize", Check: "start_up", Words: "fuel_exhausted",
			Build: func() []byte { return (&guest{initialize: forever()}).bytes(result(0)) }},
		{Name: "initialize-trap", Doc: "traps in _initialize", Check: "start_up", Words: "trap",
			Build: func() []byte { return (&guest{initialize: Op(op.Unreachable)}).bytes(result(0)) }},
		{Name: "initialize-fail", Doc: "asks for the texts of a request before there is one", Check: "start_up",
			Words: "before mneme_assemble", Build: func() []byte {
				g := &guest{}
				g.initialize = code(call(g.mneme("text"), 0, 0, 0, 0), Op(op.Drop))
				return g.bytes(result(0))
			}},
		{Name: "arena-past-memory", Doc: "gives an area past the end of its memory", Check: "start_up", Words: "pass the end",
			Build: arena(I32Const(-8))},
		{Name: "arena-overlap", Doc: "gives the same area for both", Check: "start_up", Words: "overlap",
			Build: arena(I32Const(requestArena))},
		{Name: "arena-loop", Doc: "loops without end in mneme_arena", Check: "start_up", Words: "fuel_exhausted",
			Build: arena(forever(), Op(op.Unreachable))},
		{Name: "proc-exit", Doc: "ends the process", Status: plan.StatusTrap, Words: "proc_exit(3)",
			Build: func() []byte {
				g := &guest{}
				return g.bytes(call(g.wasi("proc_exit", 1, nil), 3), result(0))
			}},
	}
}
