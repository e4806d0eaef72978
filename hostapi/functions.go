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

// hostModule is the name under which the host functions stand.
const hostModule = "mneme"

// hostFunction is one function that a guest may import: its signature, its documentation and its body.
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

// mnemeFunctions are the host functions of mneme/1, in the order of the documentation.
func mnemeFunctions() []hostFunction {
	i32 := []api.ValueType{api.ValueTypeI32}
	return []hostFunction{
		{"text", i32s("record", "offset", "ptr", "cap"), i32,
			"copies up to cap bytes of the record's text from offset; " +
				"returns the text's whole length, or -1 where there is no such record", hostText},
		{"tokens", i32s("ptr", "len"), i32, "token count of a text", hostTokens},
		{"find", i32s("record", "ptr", "len"), i32, "byte offset of the needle in the record's text, or -1", hostFind},
		{"log", i32s("level", "ptr", "len"), nil, "0 debug, 1 info, 2 warn, 3 error; into the decision", hostLog},
		{"fail", i32s("ptr", "len"), nil, "the author's message for a negative return", hostFail},
	}
}

// newRuntime makes the runtime of one module with the host modules that it imports. Modules do not share a runtime,
// because a runtime keeps the function types of every module that it ever saw; they share machine code through the
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
	stack[0] = api.EncodeI32(int32(len(text)))
	if int(offset) < len(text) {
		n := copy(dst, text[offset:])
		in.pull(n)
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
	in.spend(0) // where the time was up, the count is not a whole one
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

// enter counts one host call and notes its name for the words of a failure.
func (in *instance) enter(function string) {
	in.function = function
	if in.hostCalls++; in.hostCalls > in.limits.HostCalls {
		in.stop(plan.StatusHostQuota, "more than %d host calls", in.limits.HostCalls)
	}
	in.spend(fuelPerCall)
}

// pull counts bytes of text that the host copied, searched or tokenised for the guest.
func (in *instance) pull(n int) {
	in.spend(n / bytesPerFuel)
	if in.pulled += n; in.pulled > in.limits.TextBytes {
		in.stop(plan.StatusHostQuota, "more than %d bytes of text", in.limits.TextBytes)
	}
}

// write counts bytes that the guest logged or gave as its message.
func (in *instance) write(n int) {
	if in.written += n; in.written > in.limits.LogBytes {
		in.stop(plan.StatusHostQuota, "more than %d bytes of log", in.limits.LogBytes)
	}
}

// during stops a guest that calls, outside mneme_assemble, a function that needs a request.
func (in *instance) during() {
	if in.request == nil {
		in.stop(plan.StatusTrap, "called before mneme_assemble")
	}
}

// logLineBytes is what each line counts beside its text, so that empty lines cannot flood a decision.
const logLineBytes = 16

// fetched is the text that a call read last.
type fetched struct {
	record int32
	text   []byte
}

// text is a record's text, or false where the table has no such record. The text read last is kept, so that a guest can
// read it in pieces. Any other text is charged again in full, because the host makes all of it.
func (in *instance) text(record int32) ([]byte, bool) {
	in.during()
	if record < 0 || int(record) >= len(in.request.Records) {
		return nil, false
	}
	if in.last.text == nil || in.last.record != record {
		text, err := in.texts.Text(int(record))
		if err != nil {
			in.stop(plan.StatusUnavailable, "the text of record %d cannot be read: %v", record, err)
		}
		in.spend(len(text) / bytesPerFuel)
		in.last = fetched{record, text}
	}
	return in.last.text, true
}

// bytes is the guest's memory from ptr on, length bytes of it.
func (in *instance) bytes(ptr uint32, length int32) []byte {
	size := len(in.memory.bytes)
	if length < 0 {
		in.stop(plan.StatusTrap, "length %d is negative", length)
	}
	if uint64(ptr)+uint64(length) > uint64(size) {
		in.stop(plan.StatusTrap, "%d bytes at %d pass the end of memory at %d", length, ptr, size)
	}
	return in.memory.bytes[ptr : ptr+uint32(length)]
}
