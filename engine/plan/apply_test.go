package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

func TestApply(t *testing.T) {
	for _, test := range []struct {
		name, before string
		ops          []plan.Op
		want         string
	}{
		{"nothing", "ucra u", nil, "ucrau"},
		{"drop an atom", "ucra", []plan.Op{op(plan.OpDrop, 1, 2)}, "ua"},
		{"drop all", "ucra", []plan.Op{op(plan.OpDrop, 0, 3)}, ""},
		{"compress a turn", "ucra ua", []plan.Op{op(plan.OpCompress, 0, 3)}, "Cua"},
		{"compress two turns", "ua ua ua", []plan.Op{op(plan.OpCompress, 2, 3), op(plan.OpCompress, 0, 1)}, "CCua"},
		{"truncate inside an atom", "ucra", []plan.Op{op(plan.OpTruncate, 2, 2)}, "ucxa"},
		{"stub results", "ucrra", []plan.Op{op(plan.OpStub, 2, 3)}, "ucxxa"},
		{"replace", "ua", []plan.Op{op(plan.OpReplace, 0, 0)}, "xa"},
		{"insert in front", "ua", []plan.Op{op(plan.OpInsert, 0, 9)}, "Sua"},
		{"insert behind", "ua", []plan.Op{op(plan.OpInsert, 2, 0)}, "uaS"},
		{"insert before what is dropped", "ua ua", []plan.Op{op(plan.OpDrop, 0, 1), op(plan.OpInsert, 0, 0)}, "Sua"},
		{"insert behind what is dropped", "ua ua", []plan.Op{op(plan.OpDrop, 0, 1), op(plan.OpInsert, 2, 0)}, "Sua"},
		{"summarise without a summary", "ua", []plan.Op{op(plan.OpSummarise, 0, 1)}, "ua"},
		{"drop a notice", "sua", []plan.Op{op(plan.OpDrop, 0, 0)}, "ua"},
		{"between notices", "ssua", []plan.Op{op(plan.OpInsert, 1, 0)}, "sSsua"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := window(test.before)
			got, err := plan.Apply(before, test.ops, 0, source{}, free{})
			if err != nil {
				t.Fatal(err)
			}
			if s := shape(got.Items); s != test.want {
				t.Errorf("got %s, want %s", s, test.want)
			}
			if s := shape(before); s != strings.ReplaceAll(test.before, " ", "") {
				t.Errorf("the window before was changed to %s", s)
			}
		})
	}
}

func TestMalformedPlans(t *testing.T) {
	for _, test := range []struct {
		name, before string
		ops          []plan.Op
		want         string
	}{
		{"out of range", "ua", []plan.Op{op(plan.OpDrop, 1, 2)}, "not inside"},
		{"backwards", "ua", []plan.Op{op(plan.OpDrop, 1, 0)}, "not inside"},
		{"empty table", "", []plan.Op{op(plan.OpDrop, 0, 0)}, "not inside"},
		{"drops half an atom", "ucra", []plan.Op{op(plan.OpDrop, 2, 3)}, "splits an atom"},
		{"drops a call alone", "ucra", []plan.Op{op(plan.OpDrop, 0, 1)}, "splits an atom"},
		{"overlap", "uaua", []plan.Op{op(plan.OpDrop, 0, 2), op(plan.OpTruncate, 2, 3)}, "overlaps"},
		{"the same twice", "ua", []plan.Op{op(plan.OpDrop, 0, 0), op(plan.OpDrop, 0, 0)}, "overlaps"},
		{"inserts inside an atom", "ucra", []plan.Op{op(plan.OpInsert, 2, 0)}, "inside an atom"},
		{"inserts past the end", "ua", []plan.Op{op(plan.OpInsert, 3, 0)}, "inserts before record 3"},
		{"inserts into a dropped range", "uaua", []plan.Op{op(plan.OpDrop, 0, 3), op(plan.OpInsert, 2, 0)},
			"inside the range"},
		{"compresses without a user", "ua a", []plan.Op{op(plan.OpCompress, 2, 2)}, "no user"},
		{"compresses two turns at once", "ua ua", []plan.Op{op(plan.OpCompress, 0, 3)}, "spans turns"},
		{"compresses half an atom", "ucra", []plan.Op{op(plan.OpCompress, 0, 1)}, "splits an atom"},
		{"compresses a notice", "sua", []plan.Op{op(plan.OpCompress, 0, 2)}, "system-class"},
		{"stubs a question", "ucra", []plan.Op{op(plan.OpStub, 0, 0)}, "no tool result"},
		{"truncates to nothing", "ua", []plan.Op{{Code: plan.OpTruncate}}, "0 tokens"},
		{"summarises half an atom", "ucra", []plan.Op{op(plan.OpSummarise, 0, 1)}, "splits an atom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := plan.Apply(window(test.before), test.ops, 0, source{}, free{})
			var bad *plan.BadPlanError
			if !errors.As(err, &bad) || !strings.Contains(bad.Detail, test.want) {
				t.Errorf("got %v, want a malformed plan: %s", err, test.want)
			}
		})
	}
}

func TestCompressedTexts(t *testing.T) {
	got, err := plan.Apply(window("uauc ua"), []plan.Op{op(plan.OpCompress, 0, 3)}, 2, source{}, free{})
	if err != nil {
		t.Fatal(err)
	}
	it := got.Items[0]
	if want := "[earlier question] (turn 1): text 0\ntext 2"; it.Text != want || it.Tokens != uint32(len(want)) {
		t.Errorf("%q of %d tokens, want %q", it.Text, it.Tokens, want)
	}
	actions := map[int32]plan.Action{}
	for _, f := range got.Fates {
		if f.Step != 2 || f.Reason != "why: because" {
			t.Errorf("row %d: %+v", f.Row, f.Fate)
		}
		actions[f.Row] = f.Action
	}
	if len(actions) != 4 || actions[0] != plan.Compress || actions[2] != plan.Compress || actions[1] != plan.Drop ||
		actions[3] != plan.Drop {
		t.Errorf("fates %v", actions)
	}
	// A single question was counted when it was stored: compressing it reads nothing, and its text is made on demand.
	got, err = plan.Apply(window("ua ua"), []plan.Op{op(plan.OpCompress, 0, 1)}, 0, source{}, free{})
	if err != nil {
		t.Fatal(err)
	}
	if it := &got.Items[0]; it.Tokens != 12 || it.Text != "" {
		t.Errorf("%+v", it)
	} else if text, err := plan.TextOf(it, source{}); err != nil || text != "[earlier question] (turn 1): text 0" {
		t.Errorf("%q, %v", text, err)
	}
	// Compressing again changes nothing.
	again, err := plan.Apply(got.Items, []plan.Op{op(plan.OpCompress, 0, 0)}, 1, source{}, free{})
	if err != nil || len(again.Fates) != 0 || again.Items[0].Tokens != 12 {
		t.Errorf("%+v, %v", again, err)
	}
}

// Records numbers atoms again, without gaps, and gives two adjacent notices different atoms.
func TestRecords(t *testing.T) {
	items := window("ss u ccr a")
	records := plan.Records(nil, append(items[:3:3], items[4:]...))
	want := []uint32{0, 1, 2, 3, 3, 4}
	for i, r := range records {
		if r.Atom != want[i] {
			t.Errorf("record %d has atom %d, want %d", i, r.Atom, want[i])
		}
	}
}
