package hostapi

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// planError tells the author what is wrong with a plan: the op by its index, the field by its name in the ABI. quota
// marks a plan that is well formed but larger than the host allows.
type planError struct {
	words string
	quota bool
}

func (e *planError) Error() string { return e.words }

func badPlan(format string, args ...any) error {
	return &planError{words: fmt.Sprintf(format, args...)}
}

func badOp(index uint32, format string, args ...any) error {
	return badPlan("op %d: "+format, append([]any{index}, args...)...)
}

// Reasons repeat from call to call, so short ones are kept. The two limits keep a hostile guest from filling memory.
const (
	internLength  = 64
	internEntries = 256
)

// reasons interns reason strings, so that a usual plan needs no allocation per op.
type reasons map[string]string

func (r reasons) intern(b []byte) string {
	if s, ok := r[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(b) <= internLength && len(r) < internEntries {
		r[s] = s
	}
	return s
}

// asked is what the form of a plan depends on.
type asked struct {
	hook    plan.Hook
	minor   uint32 // the version in the module's manifest: a module cannot use newer ops
	maxText int    // limits the total size of all texts
}

// decode decodes a plan and checks its form. The engine checks which records an op may name.
func decode(b []byte, a asked, known reasons) ([]plan.Op, error) {
	if len(b) == 0 {
		return nil, nil
	}
	le := binary.LittleEndian
	if len(b) < planHeaderSize {
		return nil, badPlan("%d bytes are too few for the header of %d", len(b), planHeaderSize)
	}
	if magic := le.Uint32(b[planMagicAt:]); magic != planMagic {
		return nil, badPlan("magic is %#08x, not MNP1 (%#08x)", magic, uint32(planMagic))
	}
	count, at, step := le.Uint32(b[planOpCount:]), le.Uint32(b[planOpsOffset:]), le.Uint32(b[planOpSize:])
	if count == 0 {
		return nil, nil
	}
	if step < opSize {
		return nil, badPlan("op_size is %d, less than %d", step, opSize)
	}
	if at < planHeaderSize || uint64(at)+uint64(count)*uint64(step) > uint64(len(b)) {
		return nil, badPlan("%d ops of %d bytes at ops_offset %d do not fit into the %d bytes after the header",
			count, step, at, len(b)-planHeaderSize)
	}
	ops := make([]plan.Op, count)
	texts := 0
	for i := range ops {
		raw := (*[opSize]byte)(b[uint64(at)+uint64(i)*uint64(step):])
		if err := decodeOp(&ops[i], uint32(i), raw, b, a, known); err != nil {
			return nil, err
		}
		if texts += len(ops[i].Text); texts > a.maxText {
			return nil, &planError{quota: true, words: fmt.Sprintf("op %d: the plan's texts exceed %d bytes", i,
				a.maxText)}
		}
	}
	return ops, nil
}

func decodeOp(op *plan.Op, i uint32, raw *[opSize]byte, b []byte, a asked, known reasons) error {
	le := binary.LittleEndian
	code := raw[opCode]
	spec := specOf(plan.OpCode(code), raw[opTemplate])
	if spec == nil {
		return badOp(i, "op is %d, which mneme/%d.%d does not know", code, abiMajor, abiMinor)
	}
	if raw[opTemplate] != spec.template {
		return badOp(i, "template is %d, %s takes %s", raw[opTemplate], spec.name, templatesOf(spec.code))
	}
	argument := le.Uint32(raw[opArgument:])
	if needs := spec.needs(argument); needs > spec.since && needs > a.minor {
		return badOp(i, "argument is %d, %s takes none before mneme/%d.%d, and the manifest's abi is %d.%d", argument,
			spec.name, abiMajor, needs, abiMajor, a.minor)
	}
	if spec.since > a.minor {
		return badOp(i, "op is %d with template %d, %s of mneme/%d.%d, and the manifest's abi is %d.%d", code,
			spec.template, spec.name, abiMajor, spec.since, abiMajor, a.minor)
	}
	if !spec.takenBy(a.hook) {
		return badOp(i, "op is %d, %s, which %s does not take", code, spec.name, a.hook)
	}
	if reserved := le.Uint16(raw[opReserved:]); reserved != 0 {
		return badOp(i, "reserved is %d, not 0", reserved)
	}
	if argument != 0 && !spec.argument {
		return badOp(i, "argument is %d, %s takes none", argument, spec.name)
	}
	text, err := span(b, i, "text", le.Uint32(raw[opTextOffset:]), le.Uint32(raw[opTextLength:]))
	if err != nil {
		return err
	}
	if len(text) > 0 && !spec.text {
		return badOp(i, "text_length is %d, %s takes no text", len(text), spec.name)
	}
	reason, err := span(b, i, "reason", le.Uint32(raw[opReasonOffset:]), le.Uint32(raw[opReasonLength:]))
	if err != nil {
		return err
	}
	if len(reason) > maxReason {
		return badOp(i, "reason_length is %d, more than %d", len(reason), maxReason)
	}
	*op = plan.Op{
		Code: spec.code, Template: spec.template,
		First: le.Uint32(raw[opFirst:]), Last: le.Uint32(raw[opLast:]), Argument: argument,
		Text: string(text), Reason: known.intern(reason),
	}
	return nil
}

// span returns length bytes of the plan at an offset, which must be inside it and valid UTF-8. A length of 0 needs no
// valid offset.
func span(b []byte, i uint32, name string, at, length uint32) ([]byte, error) {
	if length == 0 {
		return nil, nil
	}
	if uint64(at)+uint64(length) > uint64(len(b)) {
		return nil, badOp(i, "%s_offset %d and %s_length %d pass the plan's end at %d", name, at, name, length, len(b))
	}
	s := b[at : at+length]
	if !utf8.Valid(s) {
		return nil, badOp(i, "%s is not valid UTF-8", name)
	}
	return s, nil
}
