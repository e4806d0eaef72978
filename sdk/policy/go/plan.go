package mneme

import (
	"slices"
	"unsafe"
)

// Plan is what a policy answers. Its methods write into the host's buffer and allocate nothing: texts grow up from the
// front, ops down from the end, and they are joined when the policy returns. A plan that outgrows the buffer fails the
// step with an error; the policy need not check.
//
// Ranges are record indexes, both inclusive. Ranges of different ops must not overlap, unless Keep or ReplaceArguments
// says so.
type Plan struct {
	mem     []byte
	textEnd int
	ops     []opRecord // a view of mem's end, of which ops[next:] are written, the newest first
	next    int
	err     Error
}

// Errors of a plan that could not be written.
const (
	errPlanFull  = Error("mneme: plan is larger than its buffer")
	errTextOrder = Error("mneme: only the newest text can be continued")
)

// open takes a buffer, which must be aligned to 8 bytes.
func (p *Plan) open(mem []byte) error {
	base := unsafe.Pointer(unsafe.SliceData(mem))
	if len(mem) < planHeaderSize || len(mem)%8 != 0 || uintptr(base)%8 != 0 {
		return errPlanFull
	}
	count := (len(mem) - planHeaderSize) / opSize
	var ops []opRecord
	if count > 0 {
		ops = unsafe.Slice((*opRecord)(unsafe.Add(base, len(mem)-count*opSize)), count)
	}
	*p = Plan{mem: mem, textEnd: planHeaderSize, ops: ops, next: count}
	return nil
}

// Drop leaves records out: whole atoms only. A range that continues the one before for the same reason is joined with
// it, so a loop may drop record by record.
func (p *Plan) Drop(first, last int, why Text) {
	if p.next < len(p.ops) {
		o := &p.ops[p.next]
		if OpCode(o.code) == OpDrop && o.last+1 == uint32(first) && o.reasonAt == why.at && o.reasonLen == why.length {
			o.last = uint32(last)
			return
		}
	}
	p.add(OpDrop, first, last, why)
}

// Compress puts one earlier question, `[earlier question] (turn N): TEXT`, in the place of whole atoms of one turn
// that hold at least one user message.
func (p *Plan) Compress(first, last int, why Text) {
	if o := p.add(OpCompress, first, last, why); o != nil {
		o.template = EarlierQuestion
	}
}

// Truncate cuts each text to a number of tokens, head and tail, and marks the cut.
func (p *Plan) Truncate(first, last, tokens int, why Text) {
	if o := p.add(OpTruncate, first, last, why); o != nil {
		o.argument = uint32(tokens)
	}
}

// Stub puts a short marker that names the tool and the size in the place of each tool result's text.
func (p *Plan) Stub(first, last int, why Text) {
	if o := p.add(OpStub, first, last, why); o != nil {
		o.template = SizeStub
	}
}

// Replace gives a record another text; role, ids and calls stay.
func (p *Plan) Replace(record int, text, why Text) {
	p.withText(p.add(OpReplace, record, record, why), text)
}

// Insert puts a system-class message before a record, or at the end where before is Request.Len. Never inside an atom.
func (p *Plan) Insert(before int, text, why Text) {
	p.withText(p.add(OpInsert, before, before, why), text)
}

// Summarise puts the session's running summary at first, in the place of the records that it covers, and asks the host
// to extend it up to last, in the background. Whole atoms only, and one SUMMARISE a plan. Records that it does not
// cover stay, and all do where no summary is stored.
func (p *Plan) Summarise(first, last int, why Text) {
	p.add(OpSummarise, first, last, why)
}

// ShowSummary is a Summarise that uses what is stored (Request.SummaryCovers) and asks for nothing.
func (p *Plan) ShowSummary(first, last int, why Text) {
	if o := p.add(OpSummarise, first, last, why); o != nil {
		o.argument = StoredOnly
	}
}

// ReplaceArguments gives a call other arguments: the record is one assistant's, calls count from 0. They must be valid
// JSON where the old ones were. The calls of one record may be replaced in one plan, and its text too.
func (p *Plan) ReplaceArguments(record, call int, arguments, why Text) {
	o := p.add(OpReplace, record, record, why)
	if o != nil {
		o.template, o.argument = ReplaceArguments, uint32(call)
	}
	p.withText(o, arguments)
}

// Keep pins whole atoms: later steps see them Pinned, and the built-in policies leave them for as long as they fit. It
// may name records that other ops change, but none that they take out of the window.
func (p *Plan) Keep(first, last int, why Text) { p.add(OpKeep, first, last, why) }

// Strip leaves parts of messages out, such as ImageParts|DocumentParts. Texts and calls stay.
func (p *Plan) Strip(first, last int, parts Parts, why Text) {
	if o := p.add(OpStrip, first, last, why); o != nil {
		o.argument = uint32(parts)
	}
}

func (p *Plan) withText(o *opRecord, text Text) {
	if o != nil {
		o.textAt, o.textLen = text.at, text.length
	}
}

// add writes one op, or returns nil where the buffer is full. A module holds it once, however many ops a policy uses.
//
//go:noinline
func (p *Plan) add(code OpCode, first, last int, why Text) *opRecord {
	if p.next == 0 || p.room() < opSize {
		p.fail(errPlanFull)
		return nil
	}
	p.next--
	o := &p.ops[p.next]
	*o = opRecord{
		code: uint8(code), first: uint32(first), last: uint32(last),
		reasonAt: why.at, reasonLen: why.length,
	}
	return o
}

// room is the number of bytes between texts and ops. Seven are kept back to align the ops.
func (p *Plan) room() int {
	return len(p.mem) - (len(p.ops)-p.next)*opSize - p.textEnd - 7
}

func (p *Plan) fail(e Error) {
	if p.err == "" {
		p.err = e
	}
}

// close joins texts and ops and returns the plan's length in bytes, 0 for a plan without ops.
func (p *Plan) close() (int, error) {
	if p.err != "" {
		return 0, p.err
	}
	written := p.ops[p.next:]
	if len(written) == 0 {
		return 0, nil
	}
	// Whole ops are moved, not their fields: a third of the code.
	slices.Reverse(unsafe.Slice((*[opSize / 8]uint64)(unsafe.Pointer(&written[0])), len(written)))
	at := (p.textEnd + 7) &^ 7
	clear(p.mem[p.textEnd:at]) // the same plan is the same bytes
	size := len(written) * opSize
	copy(p.mem[at:], p.mem[len(p.mem)-size:])
	head := (*[4]uint32)(unsafe.Pointer(unsafe.SliceData(p.mem)))
	*head = [4]uint32{planMagic, uint32(len(written)), uint32(at), opSize}
	return at + size, nil
}
