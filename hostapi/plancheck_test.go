package hostapi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// The test kit judges a plan like the host: both accept it or neither does. About half of the random plans are
// malformed.
func TestHarnessJudgesPlansAsTheHost(t *testing.T) {
	taken, refused := 0, 0
	for seed := range uint64(20_000) {
		rng := rand.New(rand.NewPCG(seed, 12))
		table := judged(rng)
		ops, theirs := judgedPlan(rng, len(table.Records))
		items := make([]plan.Item, len(table.Records))
		for i, r := range requestOf(table).Records {
			items[i] = plan.Item{Record: r, Row: int32(i), Step: -1}
			if r.Role == plan.RoleSystem {
				items[i].Change, items[i].Row, items[i].Text = plan.Notice, -1, "notice"
			}
		}
		_, err := plan.Apply(items, ops, 0, tableSource{table}, free{})
		bad := new(plan.BadPlanError)
		if err != nil && !errors.As(err, &bad) {
			t.Fatal(err)
		}
		if own := table.Check(theirs); (own == nil) != (err == nil) {
			t.Fatalf("seed %d: the harness says %v, the host %v\n%v\n%s", seed, own, err, theirs, shapeOf(table))
		}
		if err == nil {
			taken++
		} else {
			refused++
		}
	}
	if taken < 2000 || refused < 2000 {
		t.Errorf("%d plans were taken and %d refused", taken, refused)
	}
}

func shapeOf(t *mnemetest.Table) (s string) {
	for _, r := range t.Records {
		s += fmt.Sprintf("%d:turn %d, role %d, %d calls; ", r.Atom, r.Turn, r.Role, len(r.Calls))
	}
	return s
}

// judged returns a table of a few atoms: questions, answers, calls with results, and notices.
func judged(rng *rand.Rand) *mnemetest.Table {
	t := new(mnemetest.Table)
	add := func(turn, atom uint32, role mneme.Role, calls ...mnemetest.CallOf) {
		r := mnemetest.Record{Turn: turn, Atom: atom, Role: role, Seq: uint64(len(t.Records) + 1), Text: "text", Calls: calls}
		if len(calls) > 0 {
			r.Kind = mneme.Call
		}
		t.Records = append(t.Records, r)
	}
	for atom := range uint32(1 + rng.IntN(6)) {
		turn := atom/2 + 1
		switch rng.IntN(5) {
		case 0, 1:
			add(turn, atom, mneme.User)
		case 2:
			add(turn, atom, mneme.Assistant)
		case 3:
			add(turn, atom, mneme.Assistant, []mnemetest.CallOf{{Arguments: "{}"}, {Arguments: "ls"}}[:1+rng.IntN(2)]...)
			add(turn, atom, mneme.Tool)
		default:
			add(0, atom, mneme.System)
		}
	}
	return t
}

// judgedPlan returns a plan of up to three ops, for the host and for the test kit.
func judgedPlan(rng *rand.Rand, records int) (ops []plan.Op, theirs []mnemetest.Op) {
	for range 1 + rng.IntN(3) {
		op := mnemetest.Op{Code: mneme.OpCode(1 + rng.IntN(10)), First: rng.IntN(records + 1), Text: []string{"x", "[1]"}[rng.IntN(2)],
			Reason: "why"}
		op.Last = op.First + rng.IntN(3)
		switch op.Code {
		case mneme.OpCompress, mneme.OpStub:
			op.Template, op.Text = 1, ""
			if op.Code == mneme.OpCompress {
				op.Argument = rng.Uint32N(2) * 32
			}
		case mneme.OpReplace:
			if rng.IntN(2) == 0 {
				op.Template, op.Argument = mneme.ReplaceArguments, rng.Uint32N(3)
			}
		case mneme.OpTruncate:
			op.Argument = rng.Uint32N(3)
		case mneme.OpLedger:
			op.Text, op.Argument = "", []uint32{0, 1, 800, mneme.MaxLedger, mneme.MaxLedger + 1}[rng.IntN(5)]
		case mneme.OpStrip:
			op.Argument = rng.Uint32N(18)
		}
		theirs = append(theirs, op)
		ops = append(ops, plan.Op{Code: plan.OpCode(op.Code), Template: op.Template, First: uint32(op.First),
			Last: uint32(op.Last), Argument: op.Argument, Text: op.Text, Reason: op.Reason})
	}
	return ops, theirs
}

// tableSource implements the plan's source with a table of the test kit.
type tableSource struct{ table *mnemetest.Table }

func (s tableSource) Load([]int32) error                { return nil }
func (s tableSource) RowText(row int32) (string, error) { return s.table.Records[row].Text, nil }
func (s tableSource) Tool(*plan.Item) string            { return "tool" }
func (s tableSource) Call(it *plan.Item, call int) (plan.Called, int, bool, error) {
	calls := s.table.Records[it.Row].Calls
	if call >= len(calls) {
		return plan.Called{}, 0, false, nil
	}
	return plan.Called(calls[call]), call, true, nil
}
func (s tableSource) Edited(*plan.Item) (string, uint32, bool, error) { return "text", 1, false, nil }
func (s tableSource) TokensWith(*plan.Item, string) (uint32, error)   { return 1, nil }
func (s tableSource) NoticeTokens(string) uint32                      { return 1 }
func (s tableSource) QuestionTokens(uint32, string) uint32            { return 1 }
func (s tableSource) Summary() (uint64, string, uint32)               { return 2, "summary", 1 }
func (s tableSource) Sees(*plan.Item) bool                            { return true }
func (s tableSource) Literals(rows []int32) ([]literal.List, error) {
	return make([]literal.List, len(rows)), nil
}
func (s tableSource) Ledger(*plan.Ledger, uint32) (string, uint32, int) { return plan.Marker, 1, 0 }
func (s tableSource) ShortQuestion(_ *plan.Item, text string, _ uint32) (string, uint32) {
	return text, 1
}
func (s tableSource) DocumentTexts(*plan.Item) ([]string, error) { return nil, nil }
func (s tableSource) Thinking(*plan.Item) (string, error)        { return "", nil }
func (s tableSource) Bare(*plan.Item) (uint32, error)            { return 1, nil }
func (s tableSource) Documents(it *plan.Item) (int, plan.Flags, error) {
	return 0, it.Flags, nil
}
func (s tableSource) Truncated(*plan.Item, int, string) (plan.Cut, error) {
	return plan.Cut{Text: "t", Tokens: 1}, nil
}
