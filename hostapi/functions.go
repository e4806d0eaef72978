package hostapi

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// hostModule is the module name of the host functions.
const hostModule = "mneme"

// hostFunction is a function that a guest may import: its signature, its documentation and its body.
type hostFunction struct {
	name    string
	params  []param
	results []api.ValueType
	doc     string
	call    func(in *instance, stack []uint64)
}

type param struct {
	name string
	typ  api.ValueType
}

func i32s(names ...string) []param {
	ps := make([]param, len(names))
	for i, name := range names {
		ps[i] = param{name, api.ValueTypeI32}
	}
	return ps
}

func (f *hostFunction) paramTypes() []api.ValueType {
	types := make([]api.ValueType, len(f.params))
	for i, p := range f.params {
		types[i] = p.typ
	}
	return types
}

// mnemeFunctions returns the host functions of mneme/1, in the order of the documentation.
func mnemeFunctions() []hostFunction {
	i32 := []api.ValueType{api.ValueTypeI32}
	return []hostFunction{
		{"text", i32s("record", "offset", "ptr", "cap"), i32,
			"copies up to cap bytes of the record's text from offset; " +
				"returns the length of the whole text, or -1 if there is no such record", hostText},
		{"tokens", i32s("ptr", "len"), i32, "token count of a text", hostTokens},
		{"find", i32s("record", "ptr", "len"), i32, "byte offset of the needle in the record's text, or -1", hostFind},
		{"args", i32s("record", "call", "offset", "ptr", "cap"), i32,
			"since 1.1: as `text`, for the arguments of one of the record's calls. call counts from 0; for a result, 0 is " +
				"the call that it answers. Returns -1 if there is no such record or call", hostArgs},
		{"name", i32s("record", "call", "ptr", "cap"), i32,
			"since 1.1: copies up to cap bytes of the name of a call's tool; returns the length of the whole name, " +
				"or -1 as `args` does", hostName},
		{"score", i32s("record", "ptr", "len"), i32,
			"since 1.1: how well the record's text answers a query, by the words of both, from 0 to 1,000,000; " +
				"-1 if there is no such record", hostScore},
		{"search", i32s("record", "call", "from", "ptr", "len"), i32,
			"since 1.3: byte offset of the first needle at or behind `from`, which is not negative, in the record's text, or in the " +
				"arguments of its call if call is not -1; -1 if there is none, -2 if there is no such record or call. Only the " +
				"bytes that are searched count", hostSearch},
		{"json", i32s("record", "ptr", "len", "out", "cap"), i32,
			"since 1.3: what a JSON pointer (RFC 6901) names in an answer, or in the spec of a candidate or a memory: copies up to " +
				"cap bytes of it to out, a string without its quotes and escapes, anything else as JSON; returns its whole length, " +
				"-1 if there is no such value or record, or -2 if the text is not JSON", hostJSON},
		{"log", i32s("level", "ptr", "len"), nil, "0 debug, 1 info, 2 warn, 3 error; the decision keeps the line", hostLog},
		{"fail", i32s("ptr", "len"), nil, "sets the error message for a negative result", hostFail},
	}
}

// newRuntime returns the runtime of one module, with the host modules that it imports. Modules do not share a runtime,
// because a runtime keeps the function types of every module that it ever had; they share machine code through the
// cache.
func (h *Host) newRuntime(ctx context.Context, imports []wasm.Import) (wazero.Runtime, error) {
	r := wazero.NewRuntimeWithConfig(ctx, h.config)
	for name, functions := range map[string][]hostFunction{hostModule: mnemeFunctions(), wasiModule: wasiFunctions()} {
		if !slices.ContainsFunc(imports, func(i wasm.Import) bool { return i.Module == name }) {
			continue
		}
		if err := instantiateHost(ctx, r, name, functions); err != nil {
			return nil, errors.Join(err, r.Close(ctx))
		}
	}
	return r, nil
}

// instantiateHost builds a host module from its table.
func instantiateHost(ctx context.Context, r wazero.Runtime, name string, functions []hostFunction) error {
	b := r.NewHostModuleBuilder(name)
	for _, f := range functions {
		names := make([]string, len(f.params))
		for i, p := range f.params {
			names[i] = p.name
		}
		full := name + "." + f.name
		b.NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, _ api.Module, stack []uint64) {
				in := instanceOf(ctx)
				in.enter(full)
				f.call(in, stack)
			}), f.paramTypes(), f.results).
			WithParameterNames(names...).WithName(f.name).Export(f.name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

func hostText(in *instance, stack []uint64) {
	record, offset, ptr, limit := int32(stack[0]), int32(stack[1]), uint32(stack[2]), int32(stack[3])
	if offset < 0 {
		in.stop(plan.StatusTrap, "offset %d is negative", offset)
	}
	dst := in.bytes(ptr, limit)
	text, ok := in.text(record)
	if !ok {
		stack[0] = api.EncodeI32(-1)
		return
	}
	stack[0] = in.copyOut(dst, text, offset)
}

func hostArgs(in *instance, stack []uint64) {
	record, call, offset := int32(stack[0]), int32(stack[1]), int32(stack[2])
	if offset < 0 {
		in.stop(plan.StatusTrap, "offset %d is negative", offset)
	}
	dst := in.bytes(uint32(stack[3]), int32(stack[4]))
	arguments, ok := in.part(fetchArguments, record, call)
	if !ok {
		stack[0] = api.EncodeI32(-1)
		return
	}
	stack[0] = in.copyOut(dst, arguments, offset)
}

func hostName(in *instance, stack []uint64) {
	record, call := int32(stack[0]), int32(stack[1])
	dst := in.bytes(uint32(stack[2]), int32(stack[3]))
	name, ok := in.part(fetchName, record, call)
	if !ok {
		stack[0] = api.EncodeI32(-1)
		return
	}
	stack[0] = in.copyOut(dst, name, 0)
}

// hostScore charges like find for the text and the query, and like tokens for splitting them into words. It reads only
// a part of either, because it cannot be interrupted.
func hostScore(in *instance, stack []uint64) {
	query := in.bytes(uint32(stack[1]), int32(stack[2]))
	text, ok := in.text(int32(stack[0]))
	if !ok {
		stack[0] = api.EncodeI32(-1)
		return
	}
	text, query = text[:min(len(text), scoredText)], query[:min(len(query), scoredQuery)]
	in.pull(len(text) + len(query))
	in.spend((len(text) + len(query)) * fuelPerAnalysed)
	in.rest()
	stack[0] = api.EncodeI32(int32(in.texts.Score(text, query)))
	in.spend(0)
}

// hostJSON is charged like find over the whole text, which it reads once, and once more for each part of the pointer.
func hostJSON(in *instance, stack []uint64) {
	pointer := in.bytes(uint32(stack[1]), int32(stack[2]))
	dst := in.bytes(uint32(stack[3]), int32(stack[4]))
	text, ok := in.part(fetchJSON, int32(stack[0]), 0)
	if !ok {
		stack[0] = api.EncodeI32(-1)
		return
	}
	in.pull(len(text))
	in.spend(bytes.Count(pointer, []byte("/")) * (len(text) / bytesPerFuel))
	in.rest()
	found, err := jsonAt(text, string(pointer))
	switch {
	case err != nil:
		stack[0] = api.EncodeI32(-2)
	case found == nil:
		stack[0] = api.EncodeI32(-1)
	default:
		stack[0] = in.copyOut(dst, found, 0)
	}
}

func hostTokens(in *instance, stack []uint64) {
	text := in.bytes(uint32(stack[0]), int32(stack[1]))
	in.during()
	in.pull(len(text))
	in.spend(len(text) * fuelPerTokenised)
	n := in.texts.Tokens(text, func() bool {
		in.rest()
		return in.tank.charge(0) != nil
	})
	in.spend(0) // if the time is up, the count is incomplete
	stack[0] = api.EncodeI32(int32(n))
}

func hostFind(in *instance, stack []uint64) {
	needle := in.bytes(uint32(stack[1]), int32(stack[2]))
	text, ok := in.text(int32(stack[0]))
	if !ok {
		stack[0] = api.EncodeI32(-1)
		return
	}
	in.pull(len(text)) // searching reads all of it
	stack[0] = api.EncodeI32(int32(bytes.Index(text, needle)))
}

func hostSearch(in *instance, stack []uint64) {
	call, from := int32(stack[1]), int32(stack[2])
	needle := in.bytes(uint32(stack[3]), int32(stack[4]))
	if call < -1 || from < 0 {
		in.stop(plan.StatusTrap, "call is %d and from is %d", call, from)
	}
	what := fetchArguments
	if call == -1 {
		what, call = fetchText, 0
	}
	text, ok := in.part(what, int32(stack[0]), call)
	if !ok {
		stack[0] = api.EncodeI32(-2)
		return
	}
	text = text[min(int(from), len(text)):]
	at := bytes.Index(text, needle)
	if at < 0 {
		in.pull(len(text))
		stack[0] = api.EncodeI32(-1)
		return
	}
	in.pull(at + len(needle))
	stack[0] = api.EncodeI32(from + int32(at))
}

func hostLog(in *instance, stack []uint64) {
	level, message := uint32(stack[0]), in.bytes(uint32(stack[1]), int32(stack[2]))
	if level > 3 {
		in.stop(plan.StatusTrap, "level %d is not 0 to 3", int32(level))
	}
	in.during()
	in.write(len(message) + logLineBytes)
	in.log = append(in.log, plan.LogLine{Level: uint8(level), Message: strings.ToValidUTF8(string(message), "\uFFFD")})
}

func hostFail(in *instance, stack []uint64) {
	message := in.bytes(uint32(stack[0]), int32(stack[1]))
	in.write(len(message))
	in.failure = strings.ToValidUTF8(string(message), "\uFFFD")
}
