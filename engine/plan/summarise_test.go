package plan_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

func summarise(first, last, argument uint32) plan.Op {
	return plan.Op{Code: plan.OpSummarise, First: first, Last: last, Argument: argument, Reason: "why: because"}
}

func TestSummarise(t *testing.T) {
	for _, test := range []struct {
		name, before string
		edit         func([]plan.Item)
		covers       uint64
		ops          []plan.Op
		want         string
		rows         []int32 // with the fate summarise
		ask          uint64
	}{
		{"what is covered leaves", "ua ua ua", nil, 4, []plan.Op{summarise(0, 4, 0)}, "Zua", []int32{0, 1, 2, 3}, 5},
		{"nothing is asked for", "ua ua", nil, 2, []plan.Op{summarise(0, 3, 1)}, "Zua", []int32{0, 1}, 0},
		{"only 1 has a meaning", "ua ua", nil, 2, []plan.Op{summarise(0, 3, 7)}, "Zua", []int32{0, 1}, 4},
		{"none is stored", "ua ua", nil, 0, []plan.Op{summarise(0, 1, 0)}, "uaua", nil, 2},
		{"none is stored, none asked for", "ua", nil, 0, []plan.Op{summarise(0, 1, 1)}, "ua", nil, 0},
		{"nothing in the table is covered", "ua", func(in []plan.Item) { in[0].Seq, in[1].Seq = 8, 9 }, 7,
			[]plan.Op{summarise(0, 0, 1)}, "Zua", nil, 0},
		{"in the middle", "ua ua", nil, 9, []plan.Op{summarise(2, 2, 1)}, "uaZa", []int32{2}, 0},
		{"outside the range all stays", "ua ua", nil, 9, []plan.Op{summarise(1, 2, 0)}, "uZa", []int32{1, 2}, 3},
		{"notices stay", "sua s ua", nil, 2, []plan.Op{summarise(0, 5, 0)}, "Zssua", []int32{0, 1}, 4},
		{"a late result shows all of its atom", "ucrr u a", func(in []plan.Item) { in[3].Seq = 9 }, 8,
			// messages older than the result but after its call were not named
			[]plan.Op{summarise(0, 3, 0)}, "Zcrrua", []int32{0}, 4},
		{"a covered atom leaves whole", "ucrr u", nil, 4, []plan.Op{summarise(0, 3, 1)}, "Zu", []int32{0, 1, 2, 3}, 0},
		{"a made-up answer goes with its call", "ucru", func(in []plan.Item) {
			in[2] = plan.Item{Row: 1, Change: plan.Answer, Record: in[2].Record}
			in[2].Seq = in[1].Seq
		}, 3, []plan.Op{summarise(0, 2, 1)}, "Zu", []int32{0, 1}, 0},
		{"a delegation's messages stay", "uaaa", func(in []plan.Item) { in[1].Delegation = 2 }, 3,
			[]plan.Op{summarise(0, 2, 0)}, "Zaa", []int32{0, 2}, 3},
		{"what must stay stays", "uaa", func(in []plan.Item) { in[0].Flags = plan.FlagMandatory }, 3,
			[]plan.Op{summarise(0, 1, 1)}, "Zua", []int32{1}, 0},
		{"what is pinned stays", "uaa", func(in []plan.Item) { in[0].Flags = plan.FlagPinned }, 3,
			[]plan.Op{summarise(0, 1, 1)}, "Zua", []int32{1}, 0},
		{"pending messages stay and are not asked for", "uau", func(in []plan.Item) { in[2].Flags = plan.FlagPending },
			9,
			[]plan.Op{summarise(0, 2, 0)}, "Zu", []int32{0, 1}, 2},
		{"beside other ops", "ua ua ua", nil, 2, []plan.Op{op(plan.OpCompress, 2, 3), summarise(0, 1, 1),
			op(plan.OpInsert, 4, 0)}, "ZCSua", []int32{0, 1}, 0},
		{"behind what is inserted there", "ua", nil, 1, []plan.Op{summarise(0, 0, 1), op(plan.OpInsert, 0, 0)}, "SZa",
			[]int32{0}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := window(test.before)
			if test.edit != nil {
				test.edit(before)
			}
			was := shape(before)
			got, err := plan.Apply(before, test.ops, 3, source{test.covers}, free{})
			if err != nil {
				t.Fatal(err)
			}
			if s := shape(got.Items); s != test.want {
				t.Errorf("got %s, want %s", s, test.want)
			}
			if s := shape(before); s != was {
				t.Errorf("the window before was changed from %s to %s", was, s)
			}
			if rows := summarised(t, got); !slices.Equal(rows, test.rows) || got.AskSummary != test.ask {
				t.Errorf("rows %v are summarised, up to %d is asked for; want %v, %d", rows, got.AskSummary, test.rows,
					test.ask)
			}
		})
	}
}

// summarised returns the rows with that fate.
func summarised(t *testing.T, r plan.Result) []int32 {
	t.Helper()
	var rows []int32
	for _, f := range r.Fates {
		if f.Action != plan.Summarise {
			continue
		}
		if f.Reason != "why: because" {
			t.Errorf("row %d: %+v", f.Row, f.Fate)
		}
		rows = append(rows, f.Row)
	}
	return rows
}

func TestSummaryNotice(t *testing.T) {
	got, err := plan.Apply(window("ua ua"), []plan.Op{summarise(0, 1, 1)}, 4, source{2}, free{})
	if err != nil {
		t.Fatal(err)
	}
	it := got.Items[0]
	if it.Change != plan.Notice || it.Role != plan.RoleSystem || it.Row != -1 || it.Text != "the summary" ||
		it.Tokens != 7 ||
		it.TextBytes != 11 || it.Step != 4 || it.Reason != "why: because" || it.Seq != 0 || it.Turn != 0 {
		t.Errorf("%+v", it)
	}
	if v := (&plan.Law{}).Check(window("ua ua"), got.Items); v != nil {
		t.Error(v)
	}
}

// However many steps ask for it, the window has one summary; dropping it changes the fates of the messages that it
// replaced.
func TestSummaryOfTwoSteps(t *testing.T) {
	first, err := plan.Apply(window("ua ua ua"), []plan.Op{summarise(0, 1, 1)}, 0, source{4}, free{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := plan.Apply(first.Items, []plan.Op{summarise(1, 4, 1)}, 1, source{4}, free{})
	if err != nil {
		t.Fatal(err)
	}
	if s := shape(second.Items); s != "Zua" {
		t.Fatalf("got %s, want Zua", s)
	}
	if shape(first.Items) != "Zuaua" || len(first.Items[0].Rows) != 2 {
		t.Errorf("the first step's window was changed: %+v", first.Items[0])
	}
	third, err := plan.Apply(second.Items, []plan.Op{op(plan.OpDrop, 0, 0)}, 2, source{4}, free{})
	if err != nil {
		t.Fatal(err)
	}
	var dropped []int32
	for _, f := range third.Fates {
		if f.Action == plan.Drop && f.Step == 2 {
			dropped = append(dropped, f.Row)
		}
	}
	if shape(third.Items) != "ua" || !slices.Equal(dropped, []int32{0, 1, 2, 3}) {
		t.Errorf("without the summary the window is %s and rows %v say drop", shape(third.Items), dropped)
	}
	// A plan that drops the summary and asks for it shows it at the new position.
	moved, err := plan.Apply(second.Items, []plan.Op{op(plan.OpDrop, 0, 0), summarise(2, 2, 1)}, 2, source{4}, free{})
	if err != nil || shape(moved.Items) != "uZa" {
		t.Errorf("got %s, %v", shape(moved.Items), err)
	}
}

func TestMalformedSummaries(t *testing.T) {
	for _, test := range []struct {
		name, before string
		ops          []plan.Op
		want         string
	}{
		{"begins inside an atom", "ucrr", []plan.Op{summarise(2, 3, 0)}, "splits an atom"},
		{"ends inside an atom", "ucrr", []plan.Op{summarise(0, 2, 0)}, "splits an atom"},
		{"past the end", "ua", []plan.Op{summarise(0, 2, 0)}, "not inside"},
		{"an empty table", "", []plan.Op{summarise(0, 0, 1)}, "not inside"},
		{"twice", "ua ua", []plan.Op{summarise(0, 0, 0), summarise(2, 2, 1)}, "a second time"},
		{"overlap", "ua ua", []plan.Op{summarise(0, 2, 0), op(plan.OpDrop, 2, 2)}, "overlaps"},
		{"inserted into", "ua ua", []plan.Op{summarise(0, 2, 0), op(plan.OpInsert, 1, 0)}, "inside the range"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := plan.Apply(window(test.before), test.ops, 0, source{9}, free{})
			var bad *plan.BadPlanError
			if !errors.As(err, &bad) || !strings.Contains(bad.Detail, test.want) {
				t.Errorf("got %v, want a malformed plan: %s", err, test.want)
			}
		})
	}
}

// The joined questions of a turn may not all be covered, so they stay. A single question is removed.
func TestSummaryOfCompressedTurns(t *testing.T) {
	compressed, err := plan.Apply(window("uu a ua u"), []plan.Op{op(plan.OpCompress, 0, 1), op(plan.OpCompress, 3, 4)},
		0, source{}, free{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := plan.Apply(compressed.Items, []plan.Op{summarise(0, 2, 1)}, 1, source{5}, free{})
	if err != nil || shape(compressed.Items) != "CaCu" || shape(got.Items) != "ZCu" {
		t.Fatalf("%s became %s, %v", shape(compressed.Items), shape(got.Items), err)
	}
	if rows := summarised(t, got); !slices.Equal(rows, []int32{2, 3}) {
		t.Errorf("rows %v are summarised", rows)
	}
}

// Over random windows: only covered atoms in the range are removed, the others keep their order, and one summary is
// shown where the range began.
func TestSummariseModel(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 0))
	applied := 0
	for range 20000 {
		before := scattered(r)
		n := uint32(len(before) + 1)
		op := summarise(r.Uint32N(n), r.Uint32N(n), r.Uint32N(3))
		covers := r.Uint64N(uint64(n) + 2)
		got, err := plan.Apply(before, []plan.Op{op}, 0, source{covers}, free{})
		if err != nil {
			continue
		}
		applied++
		var want []plan.Item
		var rows []int32
		ask := uint64(0)
		for i := range before {
			it := &before[i]
			inside := op.First <= uint32(i) && uint32(i) <= op.Last
			if covers > 0 && uint32(i) == op.First {
				want = append(want, plan.Item{Record: plan.Record{Kind: plan.KindSummary}})
			}
			if stored := it.Role != plan.RoleSystem && it.Flags&plan.FlagPending == 0; inside && stored &&
				op.Argument != 1 {
				ask = max(ask, it.Seq)
			} else if stored && uint32(i) > op.Last {
				ask = min(ask, it.Seq-1)
			}
			if inside && !slices.ContainsFunc(before, func(other plan.Item) bool {
				return other.Atom == it.Atom && (other.Seq > covers || other.Role == plan.RoleSystem ||
					other.Delegation != 0 ||
					other.Flags&(plan.FlagPending|plan.FlagMandatory|plan.FlagPinned) != 0)
			}) {
				rows = append(rows, it.Row)
				continue
			}
			want = append(want, *it)
		}
		same := slices.EqualFunc(got.Items, want, func(a, b plan.Item) bool {
			return a.Kind == plan.KindSummary && b.Kind == plan.KindSummary || a.Seq == b.Seq && a.Row == b.Row &&
				a.Atom == b.Atom
		})
		if !same || got.AskSummary != ask || !slices.Equal(summarised(t, got), rows) {
			t.Fatalf("%+v of %s with %d covered: %s, rows %v, asks %d", op, shape(before), covers, shape(got.Items),
				summarised(t, got), got.AskSummary)
		}
		if v := (&plan.Law{}).Check(before, got.Items); v != nil {
			t.Fatal(v)
		}
	}
	if applied < 5000 {
		t.Errorf("only %d plans were well formed", applied)
	}
}

// scattered returns a random window with delegations, late results, pending messages at its end, and mandatory
// messages.
func scattered(r *rand.Rand) []plan.Item {
	letters := make([]byte, 1+r.IntN(16))
	for i := range letters {
		letters[i] = "uacrrs "[r.IntN(7)]
		if letters[i] == 'r' && (i == 0 || letters[i-1] != 'c' && letters[i-1] != 'r') {
			letters[i] = 'a'
		}
	}
	items := window(string(letters))
	delegations := map[uint32]uint32{}
	for i := range items {
		it := &items[i]
		if it.Role == plan.RoleSystem {
			continue
		}
		if _, ok := delegations[it.Atom]; !ok {
			delegations[it.Atom] = uint32(max(r.IntN(8)-6, 0))
		}
		it.Delegation = delegations[it.Atom]
		if it.Role == plan.RoleTool && r.IntN(3) == 0 {
			it.Seq += uint64(r.IntN(20))
		}
		switch r.IntN(12) {
		case 0:
			it.Flags |= plan.FlagMandatory
		case 1:
			it.Flags |= plan.FlagPending
		case 2:
			it.Flags |= plan.FlagPinned
		}
	}
	return items
}
