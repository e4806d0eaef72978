package plan_test

import (
	"fmt"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
)

// window builds items from letters, one per record: u user, a assistant, c call, r result of the previous call, o open
// call, s system-class. A space begins a turn. Rows and seq count up, every text is a word, and every record costs 10
// tokens.
func window(letters string) []plan.Item {
	var items []plan.Item
	turn, atom, row := uint32(1), uint32(0), int32(0)
	for _, l := range letters {
		if l == ' ' {
			turn++
			continue
		}
		if l != 'r' {
			atom++
		}
		it := plan.Item{Row: row, Step: -1, Record: plan.Record{Seq: uint64(row) + 1, Turn: turn, Tokens: 10,
			Atom: atom}}
		switch l {
		case 'u':
			it.Role, it.CompressedTokens = plan.RoleUser, 12
		case 'a':
			it.Role = plan.RoleAssistant
		case 'c':
			it.Role, it.Kind = plan.RoleAssistant, plan.KindCall
		case 'o':
			it.Role, it.Kind, it.Flags = plan.RoleAssistant, plan.KindCall, plan.FlagOpenCall
		case 'r':
			it.Role, it.Kind = plan.RoleTool, plan.KindResult
		case 's':
			it.Role, it.Change, it.Row, it.Text, it.Seq, it.Turn = plan.RoleSystem, plan.Notice, -1, "notice", 0, 0
			row--
		}
		items = append(items, it)
		row++
	}
	return items
}

// hidden is a delegation that no viewer may see.
const hidden = 9

// source returns "text N" as the text of row N and counts one token per letter. Its summary covers messages with a seq
// up to covers; 0 means that there is none.
type source struct{ covers uint64 }

func (s source) Summary() (covers uint64, text string, tokens uint32) {
	if s.covers == 0 {
		return 0, "", 0
	}
	return s.covers, "the summary", 7
}

func (source) RowText(row int32) (string, error) { return fmt.Sprint("text ", row), nil }
func (source) Tool(*plan.Item) string            { return "search" }
func (source) Call(it *plan.Item, call int) (plan.Called, int, bool, error) {
	if it.Role == plan.RoleTool {
		return plan.Called{Name: "search", Arguments: `{"q":1}`}, 0, call == 0, nil
	}
	return plan.Called{Name: "search", Arguments: `{"q":1}`}, call, it.Kind == plan.KindCall && call < 2, nil
}

// Edited: a result shows the arguments of its call, and user messages contain only parts.
func (s source) Edited(it *plan.Item) (text string, tokens uint32, empty bool, err error) {
	switch {
	case it.Change == plan.Retexted:
		return it.Text, uint32(len(it.Text)), false, nil
	case it.Role == plan.RoleTool:
		c, _, err := plan.CallOf(it, 0, s)
		return "asked " + c.Arguments, uint32(len(c.Arguments)), false, err
	case it.Role == plan.RoleUser:
		return "", 0, true, nil
	}
	text, err = s.RowText(it.Row)
	return text, uint32(len(text)), false, err
}
func (source) Sees(it *plan.Item) bool { return it.Delegation != hidden }
func (s source) Literals(rows []int32) ([]literal.List, error) {
	lists := make([]literal.List, len(rows))
	for i, row := range rows {
		text, _ := s.RowText(row)
		lists[i] = literal.Of(text, fmt.Sprintf(`{"of_row": "R%03d"}`, row))
	}
	return lists, nil
}
func (s source) Ledger(l *plan.Ledger, most uint32) (text string, cost uint32, without int) {
	without = l.Fit(int(most), func(text string) int { return len(text) / 2 })
	text = l.Text(without)
	return text, s.NoticeTokens(text), without
}
func (s source) ShortQuestion(it *plan.Item, text string, most uint32) (string, uint32) {
	text = text[:min(len(text), int(most))]
	return text, s.QuestionTokens(it.Turn, text)
}
func (source) NoticeTokens(text string) uint32 { return uint32(len(text)) }
func (source) Load([]int32) error              { return nil }
func (source) QuestionTokens(turn uint32, text string) uint32 {
	return uint32(len(plan.EarlierQuestion(turn) + text))
}
func (s source) Truncated(it *plan.Item, n int, note string) (plan.Cut, error) {
	text, err := plan.TextOf(it, s)
	if n < len(text) {
		text = text[:n] + note
	}
	return plan.Cut{Text: text, Tokens: uint32(len(text))}, err
}
func (source) DocumentTexts(*plan.Item) ([]string, error) { return nil, nil }
func (source) Thinking(it *plan.Item) (string, error)     { return "hm, text " + fmt.Sprint(it.Row), nil }
func (source) Bare(*plan.Item) (uint32, error)            { return 0, nil }
func (source) Documents(it *plan.Item) (int, plan.Flags, error) {
	return 0, it.Flags, nil
}
func (source) TokensWith(_ *plan.Item, text string) (uint32, error) {
	return uint32(len(text)), nil
}

// shape is the inverse of window: letters as in window, C for a compressed turn, Z for a summary, S for an inserted
// notice, lower-case x for a changed text.
func shape(items []plan.Item) string {
	var b strings.Builder
	for _, it := range items {
		switch {
		case it.Change == plan.Compressed:
			b.WriteByte('C')
		case it.Kind == plan.KindSummary:
			b.WriteByte('Z')
		case it.Change == plan.Notice && it.Step >= 0:
			b.WriteByte('S')
		case it.Change == plan.Notice:
			b.WriteByte('s')
		case it.Change == plan.Retexted:
			b.WriteByte('x')
		case it.Role == plan.RoleUser:
			b.WriteByte('u')
		case it.Role == plan.RoleTool:
			b.WriteByte('r')
		case it.Kind == plan.KindCall:
			b.WriteByte('c')
		default:
			b.WriteByte('a')
		}
	}
	return b.String()
}

func op(code plan.OpCode, first, last uint32) plan.Op {
	o := plan.Op{Code: code, First: first, Last: last, Template: 1, Text: "given", Argument: 3, Reason: "why: because"}
	if code == plan.OpCompress {
		o.Argument = 0 // whole
	}
	return o
}

// free is a meter that never runs out.
type free struct{}

func (free) Spend(int) error { return nil }
