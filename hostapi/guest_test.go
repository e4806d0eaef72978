package hostapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/compiler/compilertest"
)

// The guests in these tests are assembled instruction by instruction, so that each does exactly one thing and no
// toolchain is needed.

// Value types and instructions, in their binary form.
const (
	i32t = 0x7f
	i64t = 0x7e

	opUnreachable = 0x00
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opEnd         = 0x0b
	opBr          = 0x0c
	opCall        = 0x10
	opIndirect    = 0x11
	opDropValue   = 0x1a
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opGlobalGet   = 0x23
	opGlobalSet   = 0x24
	opTableSet    = 0x26
	opLoad        = 0x28
	opLoad64      = 0x29
	opStore       = 0x36
	opStore64     = 0x37
	opMemorySize  = 0x3f
	opMemoryGrow  = 0x40
	opGtU         = 0x4b
	opAdd         = 0x6a
	opSub         = 0x6b
	opOr          = 0x72
	opShl         = 0x74
	opNull        = 0xd0
	void          = 0x40
	funcref       = 0x70
)

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func ins(op byte, args ...uint32) []byte {
	b := []byte{op}
	for _, a := range args {
		b = binary.AppendUvarint(b, uint64(a))
	}
	return b
}

// konst pushes an i32.
func konst(v int32) []byte { return append([]byte{0x41}, sleb(int64(v))...) }

func konst64(v int64) []byte { return append([]byte{0x42}, sleb(v)...) }

func sleb(v int64) (b []byte) {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// call pushes the arguments and calls the function.
func call(f uint32, args ...int32) []byte {
	var b []byte
	for _, a := range args {
		b = append(b, konst(a)...)
	}
	return append(b, ins(opCall, f)...)
}

// grow requests more memory and drops the result.
func grow(pages int32) []byte { return cat(konst(pages), ins(opMemoryGrow, 0), ins(opDropValue)) }

// show ends assemble with a number that the test can see: the author's error -1 - n.
func show(code []byte) []byte { return cat(konst(-1), code, ins(opSub)) }

// store writes a u32 at a fixed address.
func store(at int32, value []byte) []byte { return cat(konst(at), value, ins(opStore, 2, 0)) }

// load reads a u32 from a fixed address.
func load(at int32) []byte { return cat(konst(at), ins(opLoad, 2, 0)) }

type fn struct {
	params, results []byte
	code            []byte // without its end; no locals
}

type fnImport struct {
	module, name    string
	params, results []byte
}

type datum struct {
	at    int32
	bytes []byte
}

// guest describes a module to assemble. Its functions follow its imports in the index space; those of the ABI come
// first: mneme_abi, mneme_arena, mneme_assemble, then more.
type guest struct {
	manifest   string
	imports    []fnImport
	pages      uint32
	maxPages   uint32
	globals    []int32 // initial values of mutable i32 globals, not exported
	table      uint32  // entries of a table whose entry 0 is mneme_abi; 0 means no table
	data       []datum
	abi        []byte // code; nil means the version of this host
	arena      []byte // code; nil means requestArena and after it
	assemble   []byte // code; nil means an empty plan
	plan       []byte // code of mneme_plan; nil means not exported
	initialize []byte // code; nil means not exported
	more       []fn
	drop       string          // an export to leave out
	results    map[string]byte // results by function, if they differ
}

const okManifest = `{"abi":"1.0","hooks":["assemble"]}`

// Where the default arena function puts the small arenas.
const (
	requestArena = 65536
	planArena    = 131072
)

// arenaCode returns requestArena for the request and the bytes after it for the plan, and grows the memory for the
// large size.
func arenaCode() []byte {
	return cat(
		ins(opLocalGet, 1), konst(65536), ins(opGtU), ins(opIf, void), grow(10), ins(opEnd),
		ins(opLocalGet, 0), ins(opIf, i32t), ins(opLocalGet, 1), konst(1), ins(opShl), konst(requestArena), ins(opAdd),
		ins(opElse), konst(requestArena), ins(opEnd))
}

func section(id byte, entries ...[]byte) []byte {
	body := cat(append([][]byte{binary.AppendUvarint(nil, uint64(len(entries)))}, entries...)...)
	return cat([]byte{id}, vec(body))
}

func vec(b []byte) []byte { return cat(binary.AppendUvarint(nil, uint64(len(b))), b) }

func or(code, otherwise []byte) []byte {
	if code == nil {
		return otherwise
	}
	return code
}

func (g guest) build() []byte {
	i32r := []byte{i32t}
	fns := []fn{
		{nil, i32r, or(g.abi, konst(abiVersion))},
		{[]byte{i32t, i32t}, i32r, or(g.arena, arenaCode())},
		{[]byte{i32t, i32t, i32t, i32t}, i32r, or(g.assemble, konst(0))},
	}
	names := []string{"mneme_abi", "mneme_arena", "mneme_assemble"}
	for i, name := range names {
		if r, ok := g.results[name]; ok {
			fns[i].results, fns[i].code = []byte{r}, konst64(0)
		}
	}
	if g.initialize != nil {
		fns, names = append(fns, fn{nil, nil, g.initialize}), append(names, "_initialize")
	}
	if g.plan != nil {
		fns = append(fns, fn{[]byte{i32t, i32t, i32t, i32t}, i32r, g.plan})
		names = append(names, "mneme_plan")
		if r, ok := g.results["mneme_plan"]; ok {
			fns[len(fns)-1].results = []byte{r}
		}
	}
	fns = append(fns, g.more...)
	var types, imports, functions, codes, exports, globals, data [][]byte
	typ := func(params, results []byte) []byte {
		types = append(types, cat([]byte{0x60}, vec(params), vec(results)))
		return ins(byte(len(types) - 1))[:1]
	}
	for _, i := range g.imports {
		imports = append(imports, cat(vec([]byte(i.module)), vec([]byte(i.name)), []byte{0}, typ(i.params, i.results)))
	}
	for i, f := range fns {
		functions = append(functions, typ(f.params, f.results))
		codes = append(codes, vec(cat([]byte{0}, f.code, []byte{opEnd})))
		if i < len(names) && names[i] != g.drop {
			exports = append(exports, cat(vec([]byte(names[i])), ins(0, uint32(len(g.imports)+i))))
		}
	}
	if g.drop != "memory" {
		exports = append(exports, cat(vec([]byte("memory")), ins(2, 0)))
	}
	for _, v := range g.globals {
		globals = append(globals, cat([]byte{i32t, 1}, konst(v), []byte{opEnd}))
	}
	for _, d := range g.data {
		data = append(data, cat([]byte{0}, konst(d.at), []byte{opEnd}, vec(d.bytes)))
	}
	module := cat([]byte("\x00asm\x01\x00\x00\x00"), section(1, types...))
	if len(imports) > 0 {
		module = append(module, section(2, imports...)...)
	}
	module = append(module, section(3, functions...)...)
	if g.table > 0 {
		module = append(module, section(4, cat([]byte{funcref}, ins(0, g.table)))...)
	}
	limits := ins(0, max(g.pages, 3))
	if g.maxPages > 0 {
		limits = ins(1, max(g.pages, 3), g.maxPages)
	}
	module = append(module, section(5, limits)...)
	if len(globals) > 0 {
		module = append(module, section(6, globals...)...)
	}
	module = append(module, section(7, exports...)...)
	if g.table > 0 {
		element := cat([]byte{0}, konst(0), []byte{opEnd}, ins(1, uint32(len(g.imports))))
		module = append(module, section(9, element)...)
	}
	module = append(module, section(10, codes...)...)
	if len(data) > 0 {
		module = append(module, section(11, data...)...)
	}
	manifest := g.manifest
	if manifest == "" {
		manifest = okManifest
	}
	return cat(module, []byte{0}, vec(cat(vec([]byte("mneme.policy")), []byte(manifest))))
}

// texts are the texts of a test's records; a token is a word.
type texts []string

func (t texts) Text(record int) ([]byte, error) { return []byte(t[record]), nil }
func (t texts) Tokens(text []byte, _ func() bool) int {
	return len(strings.Fields(string(text)))
}

// Call: every record has one call.
func (t texts) Call(record, call int) (plan.Called, bool, error) {
	return plan.Called{Name: "tool", Arguments: `{"of":"` + t[record] + `"}`}, call == 0, nil
}

// Score counts the words of the query that the text contains.
func (t texts) Score(text, query []byte) int {
	n := 0
	for _, w := range strings.Fields(string(text)) {
		if strings.Contains(string(query), w) {
			n++
		}
	}
	return n
}

// JSON: every record's text is its JSON, except those that begin with a blank.
func (t texts) JSON(record int) ([]byte, bool, error) {
	return []byte(t[record]), !strings.HasPrefix(t[record], " "), nil
}

func newHost(t testing.TB, o Options) *Host {
	t.Helper()
	if o.Compiler == nil && !o.Interpreter {
		o.Compiler = compilertest.Command()
	}
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	o.Limits.CompileTime = time.Minute // with the race detector, compiling takes ten times as long
	if o.NewTimer == nil {
		o.NewTimer = stoppedTimer // the machine may be busy with other tests
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.putBack(t)
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func mustLoad(t testing.TB, h *Host, code []byte) plan.Digest {
	t.Helper()
	m, err := h.Load(context.Background(), "", code)
	if err != nil {
		t.Fatal(err)
	}
	return m.Digest
}

// runGuest loads a guest into a new host and calls it once with two records, `hello world` and `second`.
func runGuest(t *testing.T, o Options, g guest) plan.Outcome {
	t.Helper()
	h := newHost(t, o)
	return h.Run(context.Background(), twoRecords(mustLoad(t, h, g.build())))
}

func twoRecords(d plan.Digest) plan.Call {
	return plan.Call{
		Tenant: "t", Module: d, Texts: texts{"hello world", "second"},
		Request: &plan.Request{Records: make([]plan.Record, 2), Strings: []string{""}, Now: 1_700_000_000_123,
			Seed: 42},
	}
}

// planBytes returns a plan of the given ops, each as its 32 bytes, followed by texts.
func planBytes(texts string, ops ...[]byte) []byte {
	b := []byte("MNP1")
	b = binary.LittleEndian.AppendUint32(b, uint32(len(ops)))
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = binary.LittleEndian.AppendUint32(b, 32)
	return append(cat(append([][]byte{b}, ops...)...), texts...)
}

// opBytes returns one op: code and template, then the u32 fields from `first` on.
func opBytes(code, template byte, words ...uint32) []byte {
	b := []byte{code, template, 0, 0}
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return append(b, make([]byte, 32-len(b))...)
}
