package mneme

import (
	"slices"
	"unsafe"
)

// Plan is the output of a policy. Its methods write into the host's buffer and do not allocate: texts grow from the
// front, ops from the end, and they are joined when the policy returns. If a plan does not fit into the buffer, the
// step fails with an error; the policy need not check.
//
// Ranges are record indexes, both inclusive. Ranges of different ops must not overlap, except as documented for Keep
// and ReplaceArguments.
type Plan struct {
	mem     []byte
	textEnd int
	ops     []opRecord // a view of mem's end; ops[next:] are written, newest first
	next    int
	err     Error
}

// Errors of a plan that could not be written.
const (
	errPlanFull  = Error("mneme: plan is larger than its buffer")
	errTextOrder = Error("mneme: only the newest text can be continued")
)

// open sets the buffer, which must be aligned to 8 bytes.
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

// Drop removes records, only whole atoms. A range that continues the previous one for the same reason is joined with
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

// Compress replaces whole atoms of one turn, which must contain a user message, by one earlier question: `[earlier
// question] (turn N): TEXT`.
func (p *Plan) Compress(first, last int, why Text) {
	if o := p.add(OpCompress, first, last, why); o != nil {
		o.template = EarlierQuestion
	}
}

// CompressTo is Compress with the text shortened to a number of tokens, if the message would cost more than tokens +
// QuestionOverhead. From 16 tokens on, the message costs at most that, or Record.CompressedTokens if that is less. It
// needs ABI 1.2 in the manifest.
func (p *Plan) CompressTo(first, last, tokens int, why Text) {
	if o := p.add(OpCompress, first, last, why); o != nil {
		o.template, o.argument = EarlierQuestion, uint32(tokens)
	}
}

// Ledger inserts a message before the oldest one of the window. It says that messages were left out and which ids,
// codes, addresses, paths and numbers they named, in a text of at most tokens tokens, up to MaxLedger. It lists those
// of the records of a range that the plan drops or compresses, which must include the first and the last. A plan may
// contain one Ledger. If there is nothing to list, it does nothing; otherwise it replaces an inserted marker, `[earlier
// messages left out]`. It needs ABI 1.2 in the manifest.
func (p *Plan) Ledger(first, last, tokens int, why Text) {
	if o := p.add(OpLedger, first, last, why); o != nil {
		o.argument = uint32(tokens)
	}
}

// Truncate shortens each text to a number of tokens by cutting out its middle, and marks the cut.
func (p *Plan) Truncate(first, last, tokens int, why Text) {
	if o := p.add(OpTruncate, first, last, why); o != nil {
		o.argument = uint32(tokens)
	}
}

// Stub replaces the text of each tool result by a short marker that names the tool and the size.
func (p *Plan) Stub(first, last int, why Text) {
	if o := p.add(OpStub, first, last, why); o != nil {
		o.template = SizeStub
	}
}

// Replace replaces the text of a record; role, ids and calls do not change.
func (p *Plan) Replace(record int, text, why Text) {
	p.withText(p.add(OpReplace, record, record, why), text)
}

// Insert inserts a system-class message before a record, or at the end if before is Request.Len, but never inside an
// atom.
func (p *Plan) Insert(before int, text, why Text) {
	p.withText(p.add(OpInsert, before, before, why), text)
}

// Summarise replaces the records that the session's running summary covers by the summary, at the position first, and
// asks the host to extend the summary up to last, in the background. It takes only whole atoms, and a plan may contain
// one SUMMARISE. Records that the summary does not cover are kept; without a stored summary, all are.
func (p *Plan) Summarise(first, last int, why Text) {
	p.add(OpSummarise, first, last, why)
}

// ShowSummary is Summarise without asking to extend the stored summary (Request.SummaryCovers).
func (p *Plan) ShowSummary(first, last int, why Text) {
	if o := p.add(OpSummarise, first, last, why); o != nil {
		o.argument = StoredOnly
	}
}

// ReplaceArguments replaces the arguments of a call. The record must be an assistant's, and calls count from 0. The new
// arguments must be valid JSON if the old ones were. One plan may replace several calls of a record, and its text, too.
func (p *Plan) ReplaceArguments(record, call int, arguments, why Text) {
	o := p.add(OpReplace, record, record, why)
	if o != nil {
		o.template, o.argument = ReplaceArguments, uint32(call)
	}
	p.withText(o, arguments)
}

// Keep pins whole atoms: later steps see them as Pinned, and the built-in policies keep them as long as they fit. The
// range may include records that other ops change, but none that they remove from the window.
func (p *Plan) Keep(first, last int, why Text) { p.add(OpKeep, first, last, why) }

// Strip removes parts of messages, such as ImageParts|DocumentParts. Texts and calls are kept.
func (p *Plan) Strip(first, last int, parts Parts, why Text) {
	if o := p.add(OpStrip, first, last, why); o != nil {
		o.argument = uint32(parts)
	}
}

// Mask hides a text of 4 to 256 bytes, without quotes, backslashes and control characters, wherever it is in the texts and
// arguments of the records. It is for secrets: the records may be longer than a plan, and what is around the secret stays.
// The range may include records that other ops change, but none that they drop.
func (p *Plan) Mask(first, last int, secret, why Text) {
	p.withText(p.add(OpMask, first, last, why), secret)
}

// Refuse refuses the candidate of Admit, with the code of the reason, which must not be empty. Candidates that an
// operator wrote cannot be refused.
func (p *Plan) Refuse(why Text) { p.add(OpRefuse, 0, 0, why) }

// Patch changes the spec of the candidate of Admit, or of a memory of Retain, by a JSON merge patch (RFC 7396). In Admit
// all but key, namespace, trust and pinned may change; in Retain tags, importance, category, expires_at and metadata.
func (p *Plan) Patch(record int, patch, why Text) {
	p.withText(p.add(OpPatch, record, record, why), patch)
}

// Merge merges a record, in Admit the candidate (record 0), in Retain a memory, into a stored memory that already says
// what it says. The stored memory keeps its content, and gets the sources and the tags.
func (p *Plan) Merge(into, from int, why Text) {
	if o := p.add(OpMerge, into, from, why); o != nil {
		o.argument = KeepStored
	}
}

// MergeText is Merge, but the text becomes the content of the stored memory's next version. The zero Text means the
// content of the merged record. The record must be trusted as much as the stored memory.
func (p *Plan) MergeText(into, from int, text, why Text) {
	p.withText(p.add(OpMerge, into, from, why), text)
}

// Store stores a memory in Remember: a spec as JSON, with a quote of the messages first to last, which it is from.
func (p *Plan) Store(first, last int, spec, why Text) {
	p.withText(p.add(OpStore, first, last, why), spec)
}

// Forget sets a memory aside in Retain.
func (p *Plan) Forget(record int, why Text) { p.add(OpForget, record, record, why) }

// Ask asks the project's model in Remember: prompt is the system prompt, of at most MaxPrompt bytes, and the messages
// first to last are what it is about. The answer has at most tokens tokens, up to MaxAnswer. It must be the only op of
// the plan. Then the policy is called again, with the answer as the last record, of kind Answer.
func (p *Plan) Ask(first, last, tokens int, prompt, why Text) {
	o := p.add(OpAsk, first, last, why)
	if o != nil {
		o.argument = uint32(tokens)
	}
	p.withText(o, prompt)
}

// Rank sets the score of a hit in Recall, up to MaxScore. Hits are ordered by it.
func (p *Plan) Rank(record, score int, why Text) {
	if o := p.add(OpRank, record, record, why); o != nil {
		o.argument = uint32(score)
	}
}

func (p *Plan) withText(o *opRecord, text Text) {
	if o != nil {
		o.textAt, o.textLen = text.at, text.length
	}
}

// add writes one op, or returns nil if the buffer is full. The methods share it to keep modules small.
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

// room returns the number of bytes between texts and ops, minus seven for aligning the ops.
func (p *Plan) room() int {
	return len(p.mem) - (len(p.ops)-p.next)*opSize - p.textEnd - 7
}

func (p *Plan) fail(e Error) {
	if p.err == "" {
		p.err = e
	}
}

// close joins texts and ops and returns the plan's length in bytes; 0 for a plan without ops.
func (p *Plan) close() (int, error) {
	if p.err != "" {
		return 0, p.err
	}
	written := p.ops[p.next:]
	if len(written) == 0 {
		return 0, nil
	}
	// Move whole ops rather than their fields: this takes a third of the code.
	slices.Reverse(unsafe.Slice((*[opSize / 8]uint64)(unsafe.Pointer(&written[0])), len(written)))
	at := (p.textEnd + 7) &^ 7
	clear(p.mem[p.textEnd:at]) // the same plan always has the same bytes
	size := len(written) * opSize
	copy(p.mem[at:], p.mem[len(p.mem)-size:])
	head := (*[4]uint32)(unsafe.Pointer(unsafe.SliceData(p.mem)))
	*head = [4]uint32{planMagic, uint32(len(written)), uint32(at), opSize}
	return at + size, nil
}
