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
	doc      string
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
	{plan.OpDrop, "DROP", 0, 0, false, false, "leaves the records out; whole atoms only"},
	{plan.OpCompress, "COMPRESS", 0, 1, false, true,
		"template 1: the range is whole atoms of one turn with at least one user message; one user message `[earlier " +
			"question] (turn N): TEXT`, with the users' texts joined by a newline, replaces it. Users' rows say " +
			"compress, the others drop. compressed_tokens is per user record; the host recounts joined ones. A turn " +
			"without a user is DROPped instead. Since 1.2, argument: if the message would cost more than `argument` + 12 " +
			"tokens, its TEXT is shortened to at most `argument` tokens, the first two thirds from its beginning, ` … `, the " +
			"rest from its end, and to less where the message would still cost more than `argument` + 12; 0: it is shown " +
			"whole, as before. So it costs at most the smaller of compressed_tokens and `argument` + 12, for arguments from 16 on"},
	{plan.OpTruncate, "TRUNCATE", 0, 0, false, true,
		"cuts each text to `argument` tokens, head and tail, and marks the cut with the bytes that are left out and " +
			"with what else the message goes on to hold, such as images. In a tool result, text documents, files that are " +
			"text and search results count with its text: all together keep `argument` tokens, shared equally, and what a " +
			"short one does not need goes to the others. A document that is cut keeps its title and loses its citations"},
	{plan.OpStub, "STUB", 0, 1, false, false,
		"template 1: a tool result's text becomes a short marker that names the tool " +
			"and the size. Text documents, files that are text and search results go with it. Images, audio and other " +
			"documents stay, and the marker says so"},
	{plan.OpReplace, "REPLACE", 0, 0, true, false,
		"template 0: the text becomes the given text; role, ids and calls stay"},
	{plan.OpReplace, "REPLACE", 1, plan.ReplaceArguments, true, true,
		"template 2, since 1.1: the range is one assistant record; the arguments of its call `argument`, from 0, become " +
			"the given text, which must be valid JSON where they were. Results show the new ones too, where they show " +
			"any. REPLACEs that change different things of one record may stand together"},
	{plan.OpInsert, "INSERT", 0, 0, true, false,
		"a system-class message (kind 6) with the given text before `first`, " +
			"which may be record_count, never inside an atom; `last` is ignored, no overlap is possible"},
	{plan.OpSummarise, "SUMMARISE", 0, 0, false, true,
		"covered records (seq up to summary_covers, no delegation, not " +
			"pending, not mandatory, not pinned) are replaced by the running summary, which stands at `first` even if it covers " +
			"nothing in the table; the rest stays, and a job may extend the summary from summary_covers + 1, older than " +
			"the table too, up to `last`, never splitting an atom. The range is whole atoms; an atom is covered when all " +
			"of it is. Where no summary is stored, the records stay; where the window holds it already, it stays where " +
			"it is. Argument 1: use what is stored, ask for nothing; no other argument has a meaning. One SUMMARISE a " +
			"plan"},
	{plan.OpKeep, "KEEP", 1, 0, false, false,
		"since 1.1: the range is whole atoms, which are pinned: later steps see flag 128, and the built-ins leave such " +
			"atoms as they are, for as long as they fit; where they do not, the oldest go first, with the reason " +
			"`pinned_no_room`. The law does not force them. It may overlap all ops but DROP, COMPRESS and SUMMARISE"},
	{plan.OpStrip, "STRIP", 1, 0, false, true,
		"since 1.1: of each message, the parts of the kinds in `argument` go: 1 images, 2 audio, 4 documents and files, " +
			"8 thinking and reasoning, added up; not 0, no other bits. Texts, calls and ids stay. A message of which " +
			"nothing is left shows `…`"},
	{plan.OpLedger, "LEDGER", 2, 0, false, true,
		"since 1.2: a system-class message (kind 6) before the oldest message of the window, earlier questions included, " +
			"says that messages were left out and which literals (ids, codes, addresses, paths, numbers) they named: `[earlier messages left " +
			"out] They named LABEL: LITERAL, LITERAL; LABEL: LITERAL`. It names literals of those records of the range " +
			"that this plan drops or compresses and that the viewer may see. The range is whole atoms; the plan must drop " +
			"or compress the first and the last of them. `argument`: the most tokens of its text, 1 to 4000. The " +
			"reason in the report is `ledger`, with the number of literals. The message is shown as a user's, never as a " +
			"system prompt's. Where there is nothing to name, it does nothing; otherwise it takes the place of an INSERT of " +
			"the text `[earlier messages left out]` in the same plan. It may overlap all ops. One LEDGER a plan; " +
			"[how it is filled](#ledger)"},
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
