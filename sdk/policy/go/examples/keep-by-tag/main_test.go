package main

import (
	"fmt"
	"testing"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// Policies can be tested as plain Go functions: the input is a table, the output a list of ops.
func Example() {
	result, err := mnemetest.Run(keepByTag, &mnemetest.Table{
		Config: map[string]any{"tag": "order"},
		Records: []mnemetest.Record{
			{Turn: 1, Atom: 1, Role: mneme.User, Text: "I ordered a red bicycle.", Tags: []string{"order"}},
			{Turn: 1, Atom: 2, Role: mneme.Assistant, Text: "A fine choice."},
			{Turn: 2, Atom: 3, Role: mneme.User, Text: "How is the weather?"},
			{Turn: 3, Atom: 4, Role: mneme.User, Text: "When does it arrive?", Flags: mneme.Mandatory},
		},
	})
	for _, op := range result.Ops {
		fmt.Printf("drop %d to %d, %s\n", op.First, op.Last, op.Reason)
	}
	fmt.Println("error:", err)
	// Output:
	// drop 1 to 2, untagged: carries no tag that is to be kept
	// error: <nil>
}

func TestKeepByTag(t *testing.T) {
	type records = []mnemetest.Record
	record := func(atom uint32, flags mneme.Flags, tags ...string) mnemetest.Record {
		return mnemetest.Record{Turn: 1, Atom: atom, Role: mneme.Assistant, Flags: flags, Tags: tags}
	}
	for name, c := range map[string]struct {
		records records
		config  map[string]any
		dropped string
	}{
		"nothing":     {nil, nil, "[]"},
		"default tag": {records{record(1, 0, "keep"), record(2, 0)}, nil, "[1]"},
		"another tag": {records{record(1, 0, "keep"), record(2, 0, "a", "b")}, map[string]any{"tag": "b"},
			"[0]"},
		"part of a tag":     {records{record(1, 0, "keeper"), record(2, 0, "kee")}, nil, "[0 1]"},
		"one record tagged": {records{record(1, 0), record(1, 0, "keep"), record(1, 0), record(2, 0)}, nil, "[3]"},
		"no record tagged":  {records{record(1, 0), record(1, 0), record(2, 0, "keep")}, nil, "[0 1]"},
		"mandatory": {records{record(1, mneme.Mandatory), record(1, 0), record(2, mneme.Pending)}, nil,
			"[2]"},
		"tags not told":       {records{record(1, mneme.TagsLeftOut), record(2, 0)}, nil, "[1]"},
		"system-class stays":  {records{{Atom: 1, Role: mneme.System, Kind: mneme.Summary}, record(2, 0)}, nil, "[1]"},
		"untagged at the end": {records{record(1, 0, "keep"), record(2, 0), record(2, 0)}, nil, "[1 2]"},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := mnemetest.Run(keepByTag, &mnemetest.Table{Records: c.records, Config: c.config})
			if err != nil {
				t.Fatal(err)
			}
			dropped := []int{}
			for _, op := range result.Ops {
				if op.Code != mneme.OpDrop {
					t.Errorf("op %v", op)
				}
				for i := op.First; i <= op.Last; i++ {
					dropped = append(dropped, i)
				}
			}
			if got := fmt.Sprint(dropped); got != c.dropped {
				t.Errorf("drops %s, want %s", got, c.dropped)
			}
		})
	}
}
