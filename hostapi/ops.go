package hostapi

import (
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// opSpec is what the decoder needs to know about an op, or about one template of an op that has several.
type opSpec struct {
	code     plan.OpCode
	name     string
	since    uint32 // the minor version that introduced it
	template uint8
	text     bool // the op carries a text
	argument bool // the op carries an argument
	hooks    hooks
	doc      string
}

// hooks is a set of hooks, with bit n for the hook n.
type hooks uint32

// Sets of hooks that take an op.
const (
	inWindows  hooks = 1 << plan.HookAssemble
	inAdmit    hooks = 1 << plan.HookAdmit
	inRemember hooks = 1 << plan.HookRemember
	inRecall   hooks = 1 << plan.HookRecall
	inRetain   hooks = 1 << plan.HookRetain
)

// takenBy reports whether plans of a hook may have the op.
func (s *opSpec) takenBy(h plan.Hook) bool {
	if h.Assembles() {
		h = plan.HookAssemble
	}
	return s.hooks>>h&1 != 0
}

// names lists the hooks of a set as text.
func (s hooks) names() string {
	var all []string
	for _, h := range plan.Hooks() {
		if s>>h&1 != 0 {
			all = append(all, h.String())
		}
	}
	return strings.Join(all, ", ")
}

// needs returns the minor version that an op with an argument needs. The argument of a COMPRESS came later than the op.
func (s *opSpec) needs(argument uint32) uint32 {
	if s.code == plan.OpCompress && argument != 0 {
		return 2
	}
	return s.since
}

// opSpecs lists all ops, by code and template.
var opSpecs = [...]opSpec{
	{plan.OpDrop, "DROP", 0, 0, false, false, inWindows | inRecall, "removes the records; whole atoms only. In recall the range is hits"},
	{plan.OpCompress, "COMPRESS", 0, 1, false, true, inWindows,
		"template 1: the range is whole atoms of one turn with at least one user message. It is replaced by one user message " +
			"`[earlier question] (turn N): TEXT`, with the users' texts joined by newlines. In the report, users' rows say " +
			"compress, the others drop. compressed_tokens is per user record; the host recounts joined ones. Use DROP for a turn " +
			"without a user message. Since 1.2, `argument`: if the message would cost more than `argument` + 12 " +
			"tokens, its TEXT is shortened to at most `argument` tokens: two thirds from its beginning, ` … `, and the " +
			"rest from its end. If it still costs more than `argument` + 12, it is shortened further. 0 means that it is shown " +
			"whole, as before 1.2. So for arguments from 16 on it costs at most the smaller of compressed_tokens and `argument` + 12"},
	{plan.OpTruncate, "TRUNCATE", 0, 0, false, true, inWindows,
		"cuts each text to `argument` tokens, head and tail, and marks the cut with the number of bytes left out and " +
			"with what else the message still contains, such as images. In a tool result, text documents, files that are " +
			"text and search results count with its text: all together keep `argument` tokens, shared equally, and tokens " +
			"that a short one does not need go to the others. A document that is cut keeps its title and loses its citations"},
	{plan.OpStub, "STUB", 0, 1, false, false, inWindows,
		"template 1: a tool result's text becomes a short marker that names the tool " +
			"and the size. Text documents, files that are text and search results are replaced with it. Images, audio and other " +
			"documents stay, and the marker says so"},
	{plan.OpReplace, "REPLACE", 0, 0, true, false, inWindows | inRemember,
		"template 0: the given text replaces the text; role, ids and calls stay. In remember it is what later steps see, and ASK"},
	{plan.OpReplace, "REPLACE", 1, plan.ReplaceArguments, true, true, inWindows,
		"template 2, since 1.1: the range is one assistant record; the given text replaces the arguments of its call " +
			"number `argument`, from 0. It must be valid JSON if they were. Results that show arguments show the new ones, " +
			"too. Several REPLACEs may change different parts of one record"},
	{plan.OpInsert, "INSERT", 0, 0, true, false, inWindows,
		"inserts a system-class message (kind 6) with the given text before `first`, " +
			"which may be record_count and must not be inside an atom; `last` is ignored, and no overlap is possible"},
	{plan.OpSummarise, "SUMMARISE", 0, 0, false, true, inWindows,
		"covered records (seq up to summary_covers, no delegation, not " +
			"pending, not mandatory, not pinned) are replaced by the running summary, which is placed at `first` even if it covers " +
			"nothing in the table. Other records stay. A job may extend the summary from summary_covers + 1, which may be before " +
			"the table, up to `last`, without splitting an atom. The range is whole atoms; an atom is covered if all of its records " +
			"are. If no summary is stored, the records stay; if the window already contains it, it stays at its place. " +
			"Argument 1: use the stored summary and request none; other arguments have no meaning. A plan may have one " +
			"SUMMARISE"},
	{plan.OpKeep, "KEEP", 1, 0, false, false, inWindows,
		"since 1.1: pins the range, which is whole atoms: later steps see flag 128, and the built-in policies leave such " +
			"atoms unchanged while they fit; if they do not fit, the oldest are dropped first, with the reason " +
			"`pinned_no_room`. The validity check does not require them. It may overlap all ops except DROP, COMPRESS and SUMMARISE"},
	{plan.OpStrip, "STRIP", 1, 0, false, true, inWindows,
		"since 1.1: removes the parts of the kinds in `argument` from each message: 1 images, 2 audio, 4 documents and files, " +
			"8 thinking and reasoning, added up; not 0, and no other bits. Texts, calls and ids stay. A message with " +
			"nothing left shows `…`"},
	{plan.OpLedger, "LEDGER", 2, 0, false, true, inWindows,
		"since 1.2: adds a system-class message (kind 6) before the oldest message of the window, which may be an earlier question. " +
			"It says that messages were left out and which literals (ids, codes, addresses, paths, numbers) they named: `[earlier messages left " +
			"out] They named LABEL: LITERAL, LITERAL; LABEL: LITERAL`. The literals are those of records of the range " +
			"that this plan drops or compresses and that the viewer may see. The range is whole atoms; the plan must drop " +
			"or compress the first and the last of them. `argument`: the maximum tokens of its text, 1 to 4000. The " +
			"reason in the report is `ledger`, with the number of literals. The message is shown as a user message, never as part of a " +
			"system prompt. If there are no literals, the op does nothing; otherwise it replaces an INSERT of " +
			"the text `[earlier messages left out]` in the same plan. It may overlap all ops. A plan may have one LEDGER; " +
			"[how it is filled](#ledger)"},
	{plan.OpRefuse, "REFUSE", 3, 0, false, false, inAdmit,
		"the candidate (record 0) is not stored: the caller gets a 422 `memory_refused` with the code of the reason, which must " +
			"not be empty; the result of a tool says so to the model. Candidates of trust `operator` cannot be refused"},
	{plan.OpPatch, "PATCH", 3, 0, true, false, inAdmit | inRetain,
		"the text is a JSON merge patch (RFC 7396) of the spec of `first`, which is `last`, too. In admit it is the candidate, " +
			"and all but `key`, `namespace`, `trust` and `pinned` may change; in retain it is a stored memory, and `tags`, " +
			"`importance`, `category`, `expires_at` and `metadata` may change. The result must be a valid spec; category `core` " +
			"removes `expires_at`"},
	{plan.OpMerge, "MERGE", 3, 0, true, true, inAdmit | inRetain,
		"the record `last`, in admit the candidate (record 0), goes into the stored memory `first`, which may stand after it. Argument 1: `first` stays as it is, " +
			"and gets the sources and the tags unless it is pinned or more trusted. Argument 0: the content of what goes in, or the given text, is the next version " +
			"of `first`. In retain, `last` is set aside"},
	{plan.OpStore, "STORE", 3, 0, true, false, inRemember,
		"the text is the spec of a memory as JSON, as `POST …/memories` takes it, and `quote`. `first` to `last` are the messages " +
			"it is from. With the key of a memory in the table it is the next version of that memory; with `\"same\":true` besides, " +
			"that memory only gets the sources. It passes through the hook admit, with origin 4"},
	{plan.OpForget, "FORGET", 3, 0, false, false, inRetain,
		"the stored memory `first`, which is `last`, too, is set aside"},
	{plan.OpAsk, "ASK", 3, 0, true, true, inRemember,
		"the project's provider is asked: the text, at most 8,192 bytes, is the system prompt; the messages of users and " +
			"assistants from `first` to `last`, and the memories in the range, are the user's message. `argument`: the most tokens " +
			"of the answer, 1 to 1,024. It is the only op of its plan; then the policy is called again, with the answer as " +
			"last record (kind 8), and may not ask again"},
	{plan.OpRank, "RANK", 3, 0, false, true, inRecall,
		"the score of the hit `first`, which is `last`, too, becomes `argument`, at most 1,000,000"},
	{plan.OpMask, "MASK", 3, 0, true, false, inWindows,
		"the text, 4 to 256 bytes without quotes, backslashes and control characters, becomes `[redacted]` everywhere in the " +
			"texts and arguments of the records, and in text documents of tool results. Thinking that contains it is removed. The " +
			"other ops of the plan see what is left. Arguments that are JSON remain JSON. It may overlap all ops except DROP. A plan may have 256"},
}

// specOf finds an op by its code and template. If the template is unknown, it returns another one of the op; for an
// unknown code it returns nil.
func specOf(code plan.OpCode, template uint8) *opSpec {
	var other *opSpec
	for i := range opSpecs {
		if s := &opSpecs[i]; s.code == code {
			other = s
			if s.template == template {
				break
			}
		}
	}
	return other
}

// templatesOf lists the templates of an op as text.
func templatesOf(code plan.OpCode) string {
	var all []string
	for i := range opSpecs {
		if opSpecs[i].code == code {
			all = append(all, strconv.Itoa(int(opSpecs[i].template)))
		}
	}
	return strings.Join(all, " or ")
}
