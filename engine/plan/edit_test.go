package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// replaceArgs returns a REPLACE of a call's arguments.
func replaceArgs(record, call uint32, text string) plan.Op {
	return plan.Op{Code: plan.OpReplace, Template: plan.ReplaceArguments, First: record, Last: record, Argument: call,
		Text: text, Reason: "secret"}
}

func strip(first, last uint32, parts plan.Parts) plan.Op {
	return plan.Op{Code: plan.OpStrip, First: first, Last: last, Argument: uint32(parts), Reason: "heavy"}
}

// Pinned records are flagged for later steps, and each of their messages has a fate. Other ops of the plan apply to
// them, too, and the fate of the KEEP comes last.
func TestKeep(t *testing.T) {
	before := window("ucra ua")
	got, err := plan.Apply(before, []plan.Op{
		op(plan.OpKeep, 0, 3), op(plan.OpTruncate, 2, 2), op(plan.OpInsert, 1, 0), op(plan.OpKeep, 1, 2),
	}, 1, source{}, free{})
	if err != nil {
		t.Fatal(err)
	}
	if s := shape(got.Items); s != "uScxaua" {
		t.Errorf("the window is %s", s)
	}
	var pinned []bool
	for _, it := range got.Items {
		pinned = append(pinned, it.Flags&plan.FlagPinned != 0)
	}
	if want := []bool{true, false, true, true, true, false, false}; !slices.Equal(pinned, want) {
		t.Errorf("pinned %v, want %v", pinned, want)
	}
	last := map[int32]plan.Action{}
	for _, f := range got.Fates {
		last[f.Row] = f.Action
	}
	if len(last) != 4 || last[0] != plan.Keep || last[2] != plan.Truncate {
		t.Errorf("fates %v", last)
	}
	for i := range before {
		if before[i].Flags&plan.FlagPinned != 0 {
			t.Error("the window before was changed")
		}
	}
	// The pin stays when the message changes.
	again, err := plan.Apply(got.Items, []plan.Op{op(plan.OpCompress, 0, 0)}, 2, source{}, free{})
	if err != nil || again.Items[0].Flags&plan.FlagPinned == 0 {
		t.Errorf("compressed: %+v, %v", again.Items[0], err)
	}
}

func TestMalformedPlansOfNewerOps(t *testing.T) {
	for name, test := range map[string]struct {
		before string
		ops    []plan.Op
		want   string
	}{
		"pins half an atom":     {"ucra", []plan.Op{op(plan.OpKeep, 0, 1)}, "splits an atom"},
		"pins and drops":        {"uaua", []plan.Op{op(plan.OpKeep, 0, 3), op(plan.OpDrop, 2, 2)}, "overlaps"},
		"drops and pins":        {"uaua", []plan.Op{op(plan.OpDrop, 0, 3), op(plan.OpKeep, 2, 2)}, "overlaps"},
		"pins and compresses":   {"ua", []plan.Op{op(plan.OpKeep, 1, 1), op(plan.OpCompress, 0, 1)}, "overlaps"},
		"pins and summarises":   {"ua", []plan.Op{op(plan.OpSummarise, 0, 1), op(plan.OpKeep, 1, 1)}, "overlaps"},
		"pins far, then drops":  {"uaua", []plan.Op{op(plan.OpKeep, 0, 3), op(plan.OpKeep, 1, 1), op(plan.OpDrop, 3, 3)}, "overlaps"},
		"strips nothing":        {"ua", []plan.Op{strip(0, 1, 0)}, "is 0 or"},
		"strips unknown parts":  {"ua", []plan.Op{strip(0, 1, 17)}, "unknown bits"},
		"strips twice":          {"ua", []plan.Op{strip(0, 1, 1), strip(1, 1, 2)}, "overlaps"},
		"arguments of a user":   {"ua", []plan.Op{replaceArgs(0, 0, "{}")}, "one assistant's record"},
		"arguments of a result": {"ucr", []plan.Op{replaceArgs(2, 0, "{}")}, "one assistant's record"},
		"of two records": {"cc", []plan.Op{{Code: plan.OpReplace, Template: plan.ReplaceArguments, Last: 1}},
			"one assistant's record"},
		"of no call":        {"ucr", []plan.Op{replaceArgs(1, 2, "{}")}, "no call 2"},
		"of a plain answer": {"ua", []plan.Op{replaceArgs(1, 0, "{}")}, "no call 0"},
		"not JSON any more": {"ucr", []plan.Op{replaceArgs(1, 0, `{"a":`)}, "were JSON"},
		"the same call twice": {"ucr", []plan.Op{replaceArgs(1, 1, `1`), replaceArgs(1, 0, `1`), replaceArgs(1, 1, `2`)},
			"overlaps"},
		"arguments and a cut": {"ucr", []plan.Op{replaceArgs(1, 0, `1`), op(plan.OpTruncate, 1, 1)}, "overlaps"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.Apply(window(test.before), test.ops, 0, source{}, free{})
			var bad *plan.BadPlanError
			if !errors.As(err, &bad) || !strings.Contains(bad.Detail, test.want) || got.Items != nil {
				t.Errorf("got %v, want a malformed plan: %s", err, test.want)
			}
		})
	}
}

// Only messages that contain such parts are changed; their texts stay, and if nothing is left, a placeholder is shown.
func TestStrip(t *testing.T) {
	before := window("uaua")
	for i, f := range []plan.Flags{plan.FlagImage, plan.FlagImage | plan.FlagThinking, 0, plan.FlagAudio} {
		before[i].Flags |= f
	}
	got, err := plan.Apply(before, []plan.Op{strip(0, 3, plan.PartImage|plan.PartDocument)}, 0, source{}, free{})
	if err != nil {
		t.Fatal(err)
	}
	first, second := got.Items[0], got.Items[1]
	if first.Text != plan.Placeholder || first.Flags != 0 || first.Tokens != uint32(len(plan.Placeholder)) ||
		first.TextBytes != uint32(len(plan.Placeholder)) {
		t.Errorf("the emptied message is %+v", first)
	}
	if second.Change != plan.Unchanged || second.Edit.Strip != plan.PartImage|plan.PartDocument ||
		second.Flags != plan.FlagThinking || second.Tokens != uint32(len("text 1")) {
		t.Errorf("the message with a text is %+v", second)
	}
	if got.Items[2].Edit != nil || got.Items[3].Edit != nil || len(got.Fates) != 2 ||
		got.Fates[0].Fate != (plan.Fate{Action: plan.Strip, Reason: "heavy"}) {
		t.Errorf("others were changed: %+v", got)
	}
	// A later step removes more; what was removed stays removed.
	again, err := plan.Apply(got.Items, []plan.Op{strip(0, 3, plan.PartThinking)}, 1, source{}, free{})
	if err != nil || again.Items[1].Edit.Strip != plan.PartImage|plan.PartDocument|plan.PartThinking ||
		second.Edit.Strip != plan.PartImage|plan.PartDocument {
		t.Errorf("%+v, %v", again.Items[1].Edit, err)
	}
}

// The calls of one record and its text change together; results show the new arguments; a later step sees all of it.
func TestReplaceArguments(t *testing.T) {
	text := plan.Op{Code: plan.OpReplace, First: 1, Last: 1, Text: "given"}
	got, err := plan.Apply(window("ucrra"), []plan.Op{
		replaceArgs(1, 1, `{"b":2}`), text, replaceArgs(1, 0, `{"a":1}`),
		{Code: plan.OpStub, Template: 1, First: 3, Last: 3},
	}, 0, source{}, free{})
	if err != nil {
		t.Fatal(err)
	}
	if s := shape(got.Items); s != "uxrxa" {
		t.Errorf("the window is %s", s)
	}
	asked := func(items []plan.Item, record, call int) string {
		c, ok, err := plan.CallOf(&items[record], call, source{})
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return "none"
		}
		return c.Arguments
	}
	if a, b, c := asked(got.Items, 1, 0), asked(got.Items, 1, 1), asked(got.Items, 1, 2); a != `{"a":1}` ||
		b != `{"b":2}` || c != "none" {
		t.Errorf("the calls ask %s, %s and %s", a, b, c)
	}
	if text, err := plan.TextOf(&got.Items[2], source{}); err != nil || text != `asked {"a":1}` ||
		got.Items[2].Tokens != uint32(len(`{"a":1}`)) || got.Items[1].Text != "given" ||
		!strings.HasPrefix(got.Items[3].Text, "[result of search left out") {
		t.Errorf("texts %q, %q, %q", got.Items[1].Text, got.Items[2].Text, got.Items[3].Text)
	}
	if r := asked(got.Items, 2, 0); r != `{"a":1}` {
		t.Errorf("the result's call asks %s", r)
	}
	again, err := plan.Apply(got.Items, []plan.Op{replaceArgs(1, 0, `[]`)}, 1, source{}, free{})
	if err != nil || asked(again.Items, 1, 0) != `[]` || asked(again.Items, 1, 1) != `{"b":2}` ||
		asked(got.Items, 1, 0) != `{"a":1}` {
		t.Errorf("again: %+v, %v", again.Items[1].Edit, err)
	}
	// Arguments that were not JSON may be replaced by others that are not.
	plainly, err := plan.Apply(window("c"), []plan.Op{replaceArgs(0, 0, `null`)}, 0, source{}, free{})
	if err != nil || asked(plainly.Items, 0, 0) != "null" {
		t.Error(err)
	}
}
