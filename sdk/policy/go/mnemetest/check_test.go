package mnemetest_test

import (
	"strings"
	"testing"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// The table is a question, a call with two results, an answer, and the next turn's question.
func checked() *mnemetest.Table {
	return &mnemetest.Table{Records: []mnemetest.Record{
		{Turn: 1, Role: mneme.User, Atom: 1},
		{Turn: 1, Role: mneme.Assistant, Kind: mneme.Call, Atom: 2,
			Calls: []mnemetest.CallOf{{Name: "find", Arguments: "{}"}, {Name: "print", Arguments: "not JSON"}}},
		{Turn: 1, Role: mneme.Tool, Kind: mneme.Result, Atom: 2},
		{Turn: 1, Role: mneme.Tool, Kind: mneme.Result, Atom: 2},
		{Turn: 1, Role: mneme.Assistant, Atom: 3},
		{Turn: 2, Role: mneme.User, Atom: 4},
	}}
}

func TestCheck(t *testing.T) {
	type ops = []mnemetest.Op
	for name, c := range map[string]struct {
		ops  ops
		want string // part of the error, "" if there is none
	}{
		"nothing":         {nil, ""},
		"an atom dropped": {ops{{Code: mneme.OpDrop, First: 1, Last: 3, Reason: "code: free words"}}, ""},
		"side by side": {ops{{Code: mneme.OpDrop, First: 4, Last: 5}, {Code: mneme.OpDrop, First: 0, Last: 0}},
			""},
		"inserted at the end": {ops{{Code: mneme.OpInsert, First: 6}}, ""},
		"inserted and dropped": {
			ops{{Code: mneme.OpInsert, First: 1}, {Code: mneme.OpDrop, First: 1, Last: 3}}, ""},
		"summarised":       {ops{{Code: mneme.OpSummarise, First: 0, Last: 3, Argument: mneme.StoredOnly}}, ""},
		"summarised twice": {ops{{Code: mneme.OpSummarise}, {Code: mneme.OpSummarise, First: 4, Last: 4}}, "second"},
		"half summarised":  {ops{{Code: mneme.OpSummarise, First: 0, Last: 2}}, "split"},
		"half an atom":     {ops{{Code: mneme.OpDrop, First: 0, Last: 1}}, "split"},
		"the other half":   {ops{{Code: mneme.OpDrop, First: 3, Last: 4}}, "split"},
		"inside an atom":   {ops{{Code: mneme.OpInsert, First: 2}}, "split"},
		"past the table":   {ops{{Code: mneme.OpDrop, First: 5, Last: 6}}, "outside"},
		"inserted past it": {ops{{Code: mneme.OpInsert, First: 7}}, "outside"},
		"backwards":        {ops{{Code: mneme.OpDrop, First: 5, Last: 4}}, "outside"},
		"overlap": {
			ops{{Code: mneme.OpDrop, First: 4, Last: 5}, {Code: mneme.OpDrop, First: 0, Last: 4}}, "overlap"},
		"two turns":           {ops{{Code: mneme.OpCompress, Template: 1, First: 0, Last: 5}}, "more than one turn"},
		"no question":         {ops{{Code: mneme.OpCompress, Template: 1, First: 1, Last: 4}}, "without a user"},
		"compressed template": {ops{{Code: mneme.OpCompress, First: 0, Last: 4}}, "template"},
		"stub of a question":  {ops{{Code: mneme.OpStub, Template: 1, First: 0, Last: 0}}, "tool result"},
		"stub template":       {ops{{Code: mneme.OpStub, Template: 2, First: 2, Last: 2}}, "template"},
		"pinned and cut": {ops{{Code: mneme.OpKeep, First: 0, Last: 4}, {Code: mneme.OpTruncate, First: 2, Last: 2, Argument: 5},
			{Code: mneme.OpKeep, First: 4, Last: 5}}, ""},
		"pinned and dropped": {ops{{Code: mneme.OpKeep, First: 0, Last: 4}, {Code: mneme.OpDrop, First: 4, Last: 4}},
			"overlap"},
		"half pinned": {ops{{Code: mneme.OpKeep, First: 0, Last: 1}}, "split"},
		"named": {ops{{Code: mneme.OpLedger, First: 0, Last: 4, Argument: 800}, {Code: mneme.OpCompress, Template: 1, First: 0, Last: 0, Argument: 32},
			{Code: mneme.OpDrop, First: 4, Last: 4}}, ""},
		"named without a bound":   {ops{{Code: mneme.OpLedger, First: 4, Last: 4}, {Code: mneme.OpDrop, First: 4, Last: 4}}, "LEDGER of 0"},
		"named, and kept at last": {ops{{Code: mneme.OpLedger, First: 4, Last: 5, Argument: 1}, {Code: mneme.OpDrop, First: 4, Last: 4}}, "keeps"},
		"named twice": {ops{{Code: mneme.OpLedger, First: 4, Last: 4, Argument: 1}, {Code: mneme.OpLedger, First: 4, Last: 4, Argument: 1},
			{Code: mneme.OpDrop, First: 4, Last: 4}}, "second LEDGER"},
		"stripped":         {ops{{Code: mneme.OpStrip, First: 0, Last: 5, Argument: 15}}, ""},
		"nothing stripped": {ops{{Code: mneme.OpStrip, First: 0, Last: 5}}, "STRIP"},
		"unknown stripped": {ops{{Code: mneme.OpStrip, First: 0, Last: 5, Argument: 16}}, "STRIP"},
		"call and text": {ops{{Code: mneme.OpReplace, First: 1, Last: 1, Text: "x"},
			{Code: mneme.OpReplace, Template: 2, First: 1, Last: 1, Text: "[1]"},
			{Code: mneme.OpReplace, Template: 2, First: 1, Last: 1, Argument: 1, Text: "x"}}, ""},
		"the same call": {ops{{Code: mneme.OpReplace, Template: 2, First: 1, Last: 1, Text: "[1]"},
			{Code: mneme.OpReplace, Template: 2, First: 1, Last: 1, Text: "[2]"}}, "overlap"},
		"no JSON":   {ops{{Code: mneme.OpReplace, Template: 2, First: 1, Last: 1, Text: "x"}}, "JSON"},
		"no call":   {ops{{Code: mneme.OpReplace, Template: 2, First: 1, Last: 1, Argument: 2}}, "not there"},
		"no caller": {ops{{Code: mneme.OpReplace, Template: 2, First: 0, Last: 0, Text: "x"}}, "assistant"},
		"inserted inside": {ops{{Code: mneme.OpTruncate, First: 0, Last: 4, Argument: 5}, {Code: mneme.OpInsert, First: 1}},
			"inside the range"},
		"inserted among the pinned": {ops{{Code: mneme.OpKeep, First: 0, Last: 4}, {Code: mneme.OpInsert, First: 1}}, ""},
		"unknown op":                {ops{{Code: 11, First: 0, Last: 0}}, "unknown op"},
		"reason of words":           {ops{{Code: mneme.OpDrop, First: 0, Last: 0, Reason: "no code"}}, "reason"},
		"long reason": {ops{{Code: mneme.OpDrop, First: 0, Last: 0, Reason: strings.Repeat("a", 201)}},
			"reason"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checked().Check(c.ops)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check says %v, want %q", err, c.want)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole, err := mnemetest.Run(func(_ *mneme.Request, plan *mneme.Plan) error {
		plan.Drop(0, 0, plan.Text("why"))
		return nil
	}, checked())
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(whole.Plan); n++ {
		if _, err := mnemetest.Decode(whole.Plan[:n]); err == nil {
			t.Errorf("a plan cut at %d of %d bytes is taken", n, len(whole.Plan))
		}
	}
}
