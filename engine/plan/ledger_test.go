package plan_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/plan/literal"
)

// ledgerOf returns a LEDGER.
func ledgerOf(first, last, tokens uint32) plan.Op {
	return plan.Op{Code: plan.OpLedger, First: first, Last: last, Argument: tokens, Reason: "why"}
}

// The source of these tests gives row N the literal R00N with the label of_row.
func TestLedger(t *testing.T) {
	for name, test := range map[string]struct {
		before string
		ops    []plan.Op
		shape  string
		text   string
		reason string
	}{
		"drops": {"ua ua ua", []plan.Op{op(plan.OpDrop, 0, 3), ledgerOf(0, 3, 800)}, "Sua",
			"[earlier messages left out] They named of_row: R000, R001, R002, R003", "ledger: names 4 literals"},
		"a question stays behind it": {"ua ua ua", []plan.Op{ledgerOf(0, 3, 800), op(plan.OpCompress, 0, 1), op(plan.OpDrop, 2, 3)}, "SCua",
			"[earlier messages left out] They named of_row: R000, R001, R002, R003", "ledger: names 4 literals"},
		"what stays is not named": {"ua ua ua", []plan.Op{op(plan.OpDrop, 0, 0), op(plan.OpDrop, 2, 3), ledgerOf(0, 3, 800)}, "Saua",
			"[earlier messages left out] They named of_row: R000, R002, R003", "ledger: names 3 literals"},
		"behind notices": {"ssua ua", []plan.Op{op(plan.OpDrop, 2, 3), ledgerOf(2, 3, 800)}, "ssSua",
			"[earlier messages left out] They named of_row: R000, R001", "ledger: names 2 literals"},
		"notices name nothing": {"sua ua", []plan.Op{op(plan.OpDrop, 0, 2), ledgerOf(0, 2, 800)}, "Sua",
			"[earlier messages left out] They named of_row: R000, R001", "ledger: names 2 literals"},
		"the newest, where room is short": {"ua ua ua", []plan.Op{op(plan.OpDrop, 0, 3), ledgerOf(0, 3, 9)}, "ua", "", ""},
		"bytes bound it":                  {"ua ua ua", []plan.Op{op(plan.OpDrop, 0, 3), ledgerOf(0, 3, 10)}, "ua", "", ""}, // 25 bytes: 6 + 8 + 6
		"the marker stays, where there is nothing to name": {"ua ua", []plan.Op{op(plan.OpDrop, 0, 1),
			{Code: plan.OpInsert, First: 2, Text: plan.Marker}, ledgerOf(0, 1, 9)}, "Sua", plan.Marker, ""},
		"tokens bound it": {"ua ua ua", []plan.Op{op(plan.OpDrop, 0, 3), ledgerOf(0, 3, 26)}, "Sua", // 52 bytes of text
			"[earlier messages left out] They named of_row: R003", "ledger: names 1 literal"},
		"in place of the marker": {"ua ua", []plan.Op{op(plan.OpDrop, 0, 1), {Code: plan.OpInsert, First: 2, Text: plan.Marker}, ledgerOf(0, 1, 800)},
			"Sua", "[earlier messages left out] They named of_row: R000, R001", "ledger: names 2 literals"},
		"beside another notice": {"ua ua", []plan.Op{op(plan.OpDrop, 0, 1), op(plan.OpInsert, 2, 2), ledgerOf(0, 1, 800)}, "SSua",
			"given", ""},
		"nothing left": {"ua", []plan.Op{op(plan.OpDrop, 0, 1), ledgerOf(0, 1, 800)}, "S",
			"[earlier messages left out] They named of_row: R000, R001", "ledger: names 2 literals"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.Apply(window(test.before), test.ops, 1, source{}, free{})
			if err != nil {
				t.Fatal(err)
			}
			if s := shape(got.Items); s != test.shape {
				t.Fatalf("the window is %s, want %s", s, test.shape)
			}
			at := strings.IndexByte(test.shape, 'S')
			if at < 0 {
				return
			}
			it := got.Items[at]
			if it.Text != test.text || test.reason != "" && it.Reason != test.reason {
				t.Errorf("the ledger is %q (%s), want %q (%s)", it.Text, it.Reason, test.text, test.reason)
			}
			if it.Kind != plan.KindMarker || it.Role != plan.RoleSystem || it.Tokens != uint32(len(it.Text)) || it.Step != 1 {
				t.Errorf("%+v", it)
			}
		})
	}
}

// What a step before took away is not in the ledger.
func TestLedgerAfterChanges(t *testing.T) {
	before := window("ucr ua")
	replaced, err := plan.Apply(before, []plan.Op{
		{Code: plan.OpReplace, First: 0, Last: 0, Text: "the code is [gone], the number 4711"},
		replaceArgs(1, 0, `{"card":"redacted_1"}`), {Code: plan.OpStub, Template: 1, First: 2, Last: 2},
	}, 0, source{}, free{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := plan.Apply(replaced.Items, []plan.Op{op(plan.OpDrop, 0, 2), ledgerOf(0, 2, 800)}, 1, source{}, free{})
	if err != nil {
		t.Fatal(err)
	}
	want := "[earlier messages left out] They named number: 4711; card: redacted_1"
	if text := got.Items[0].Text; text != want {
		t.Errorf("the ledger is %q, want %q", text, want)
	}
	// An earlier question is scanned without what the host puts in front of it.
	asked := change(before, 0, func(it *plan.Item) { it.Change, it.Rows, it.Turn = plan.Compressed, []int32{0}, 1234 })
	got, err = plan.Apply(asked, []plan.Op{op(plan.OpDrop, 0, 0), ledgerOf(0, 0, 800)}, 1, source{}, free{})
	if err != nil || len(got.Items) > 0 && got.Items[0].Kind == plan.KindMarker {
		t.Errorf("the window is %+v, %v", got.Items, err)
	}
}

func TestMalformedLedgers(t *testing.T) {
	for name, test := range map[string]struct {
		before string
		ops    []plan.Op
		want   string
	}{
		"two":                {"ua", []plan.Op{op(plan.OpDrop, 0, 0), ledgerOf(0, 0, 1), ledgerOf(0, 0, 1)}, "a second ledger, after op 1"},
		"of what stays":      {"uaua", []plan.Op{op(plan.OpDrop, 0, 0), ledgerOf(0, 1, 1)}, "names record 1"},
		"of what is stubbed": {"ucr", []plan.Op{{Code: plan.OpStub, Template: 1, First: 2, Last: 2}, ledgerOf(1, 2, 1)}, "names record 1"},
		"half an atom":       {"ucr", []plan.Op{op(plan.OpDrop, 1, 2), ledgerOf(1, 1, 1)}, "splits an atom"},
		"no tokens":          {"ua", []plan.Op{op(plan.OpDrop, 0, 0), ledgerOf(0, 0, 0)}, "a ledger of 0 tokens"},
		"too many tokens":    {"ua", []plan.Op{op(plan.OpDrop, 0, 0), ledgerOf(0, 0, 4001)}, "a ledger of 4001 tokens"},
		"outside the table":  {"ua", []plan.Op{op(plan.OpDrop, 0, 0), ledgerOf(0, 2, 1)}, "not inside"},
	} {
		got, err := plan.Apply(window(test.before), test.ops, 0, source{}, free{})
		var bad *plan.BadPlanError
		if !errors.As(err, &bad) || !strings.Contains(bad.Detail, test.want) || got.Items != nil {
			t.Errorf("%s: got %v, want a malformed plan: %s", name, err, test.want)
		}
	}
}

// A COMPRESS with an argument shortens the questions that cost more, and those that were compressed before.
func TestCompressTo(t *testing.T) {
	short := func(tokens uint32) []plan.Op {
		return []plan.Op{{Code: plan.OpCompress, Template: 1, First: 0, Last: 1, Argument: tokens}}
	}
	before := window("ua ua")
	before[0].CompressedTokens = 40
	for _, test := range []struct {
		argument uint32
		text     string
		tokens   uint32
	}{{0, "", 40}, {28, "", 40}, {27, "[earlier question] (turn 1): text 0", 35}, {3, "[earlier question] (turn 1): tex", 32}, {1<<32 - 1, "", 40}} {
		got, err := plan.Apply(before, short(test.argument), 0, source{}, free{})
		if err != nil {
			t.Fatal(err)
		}
		if it := got.Items[0]; it.Text != test.text || it.Tokens != test.tokens || it.Change != plan.Compressed {
			t.Errorf("argument %d: %q, %d tokens", test.argument, it.Text, it.Tokens)
		}
		again, err := plan.Apply(got.Items, []plan.Op{{Code: plan.OpCompress, Template: 1, Argument: 2}}, 1, source{}, free{})
		if err != nil {
			t.Fatal(err)
		}
		if it := again.Items[0]; it.Text != "[earlier question] (turn 1): te" || !slices.Equal(it.Rows, []int32{0}) {
			t.Errorf("argument %d, then 2: %q of rows %v", test.argument, it.Text, it.Rows)
		}
	}
}

// naiveLedger is a slow reading of the rule: what a ledger of these records names, oldest first.
func naiveLedger(lists []literal.List, tokens int) []literal.Literal {
	var taken []literal.Literal
	room := tokens * 5 / 2
	for i := len(lists) - 1; i >= 0; i-- {
		for is := range lists[i].LastFirst() {
			if slices.ContainsFunc(taken, func(l literal.Literal) bool { return l.Text == is.Text }) {
				continue
			}
			size := len(is.Text) + 2
			if len(taken) == 0 || taken[len(taken)-1].Label != is.Label {
				size += len(is.Label) + 2
			}
			if room -= size; room < 0 {
				slices.Reverse(taken)
				return taken
			}
			taken = append(taken, is)
		}
	}
	slices.Reverse(taken)
	return taken
}

// written is a slow reading of the text of a ledger.
func written(named []literal.Literal) string {
	if len(named) == 0 {
		return "[earlier messages left out]"
	}
	var runs []string
	for i, is := range named {
		text := is.Text
		if i > 0 && named[i-1].Label == is.Label {
			runs[len(runs)-1] += ", " + text
			continue
		}
		if is.Label != "" {
			text = is.Label + ": " + text
		}
		runs = append(runs, text)
	}
	return "[earlier messages left out] They named " + strings.Join(runs, "; ")
}

// worded is a source whose texts are given.
type worded struct {
	source
	texts []string
}

func (w worded) RowText(row int32) (string, error) { return w.texts[row], nil }
func (w worded) Call(*plan.Item, int) (plan.Called, int, bool, error) {
	return plan.Called{}, 0, false, nil
}
func (w worded) Literals(rows []int32) ([]literal.List, error) {
	lists := make([]literal.List, len(rows))
	for i, row := range rows {
		lists[i] = literal.Of(w.texts[row])
	}
	return lists, nil
}

// A ledger of random messages is the one of the slow reading. It never names what the viewer may not see, nor what an
// earlier step took away, and a window with it is valid.
func FuzzLedger(f *testing.F) {
	f.Add(uint64(1), uint16(30), uint16(60))
	f.Add(uint64(2), uint16(200), uint16(4000))
	f.Add(uint64(3), uint16(5), uint16(30))
	f.Fuzz(func(t *testing.T, seed uint64, messages, tokens uint16) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + int(messages)%300
		items := window(strings.Repeat("u", n+1))
		src := worded{texts: make([]string, n+1)}
		var lists []literal.List
		var secret []string
		ops := []plan.Op{ledgerOf(0, uint32(n-1), 1+uint32(tokens)%plan.MaxLedger)}
		for i := range n {
			var words []string
			for range rng.IntN(5) {
				words = append(words, []string{"order", "flight", "and", "user_id", "", "<tagged1>"}[rng.IntN(6)], fmt.Sprintf("N%03d", rng.IntN(200)))
			}
			src.texts[i] = strings.Join(words, " ")
			list := literal.Of(src.texts[i])
			switch rng.IntN(6) {
			case 0:
				items[i].Delegation = hidden
				src.texts[i] += fmt.Sprintf(" secret S%04d", i)
				secret, list = append(secret, fmt.Sprintf("S%04d", i)), ""
			case 1:
				items[i].Change, items[i].Text = plan.Retexted, src.texts[i]
				src.texts[i] += fmt.Sprintf(" secret S%04d", i)
				secret = append(secret, fmt.Sprintf("S%04d", i))
			}
			if 0 < i && i < n-1 && rng.IntN(4) == 0 {
				continue // stays
			}
			lists = append(lists, list)
			ops = append(ops, op(plan.OpDrop, uint32(i), uint32(i)))
		}
		got, err := plan.Apply(items, ops, 0, src, free{})
		if err != nil {
			t.Fatal(err)
		}
		named := naiveLedger(lists, int(ops[0].Argument))
		for len(named) > 0 && len(written(named))/2 > int(ops[0].Argument) {
			named = named[1:]
		}
		if len(named) == 0 {
			if len(got.Items) > 0 && got.Items[0].Kind == plan.KindMarker {
				t.Fatalf("a ledger of nothing: %q", got.Items[0].Text)
			}
			return
		}
		it := got.Items[0]
		if it.Kind != plan.KindMarker || it.Text != written(named) {
			t.Fatalf("the ledger is\n%q, want\n%q", it.Text, written(named))
		}
		for _, s := range secret {
			if strings.Contains(it.Text, s) {
				t.Fatalf("%q names %s", it.Text, s)
			}
		}
		after := slices.DeleteFunc(slices.Clone(got.Items), func(it plan.Item) bool { return it.Delegation == hidden })
		if v := (&plan.Law{ViewerDelegation: 1}).Check(items, after); v != nil {
			t.Fatal(v)
		}
	})
}

// The validity check finds a ledger that is made of what the viewer may not see.
func TestLawOfLedgers(t *testing.T) {
	before := change(window("ua ua"), 0, func(it *plan.Item) { it.Delegation = 2 })
	got, err := plan.Apply(before, []plan.Op{op(plan.OpDrop, 0, 1), ledgerOf(0, 1, 800)}, 0, source{}, free{})
	if err != nil {
		t.Fatal(err)
	}
	if v := (&plan.Law{ViewerDelegation: 1}).Check(before, got.Items); v == nil || v.Rule != plan.RuleDelegationScope {
		t.Errorf("the check says %v", v)
	}
	if v := (&plan.Law{}).Check(before, got.Items); v != nil {
		t.Errorf("for the main agent, the check says %v", v)
	}
}

// BenchmarkLedger applies a plan that drops 100 messages with 400 literals, with a ledger of 800 tokens and without one.
func BenchmarkLedger(b *testing.B) {
	const n = 100
	items := window(strings.Repeat("u", n+1))
	src := kept{lists: make([]literal.List, n+1)}
	for i := range src.lists {
		src.lists[i] = literal.Of(fmt.Sprintf(`{"user_id": "user_%04d", "flight_number": "HAT%03d", "payment_id": "gift_card_%07d", "reservation_id": "R%04dX"}`, i, i, i, i))
	}
	for name, ops := range map[string][]plan.Op{
		"bare":   {op(plan.OpDrop, 0, n-1)},
		"ledger": {op(plan.OpDrop, 0, n-1), ledgerOf(0, n-1, 800)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := plan.Apply(items, ops, 0, src, free{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// kept is a source whose literals are known, and that counts nothing.
type kept struct {
	source
	lists []literal.List
}

func (k kept) Literals(rows []int32) ([]literal.List, error) {
	lists := make([]literal.List, len(rows))
	for i, row := range rows {
		lists[i] = k.lists[row]
	}
	return lists, nil
}
func (k kept) Ledger(l *plan.Ledger, _ uint32) (string, uint32, int) { return l.Text(0), 800, 0 }
