package main

import (
	"fmt"
	"testing"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

func Example() {
	result, err := mnemetest.Run(pinRelevant, &mnemetest.Table{Records: []mnemetest.Record{
		{Turn: 1, Atom: 1, Role: mneme.User, Text: "My seat is 17A"},
		{Turn: 2, Atom: 2, Role: mneme.User, Text: "How is the weather"},
		{Turn: 3, Atom: 3, Role: mneme.User, Text: "Which seat do I have", Flags: mneme.Mandatory},
	}})
	for _, op := range result.Ops {
		fmt.Printf("keep %d to %d, %s\n", op.First, op.Last, op.Reason)
	}
	fmt.Println("error:", err)
	// Output:
	// keep 0 to 0, relevant: scores 200000
	// error: <nil>
}

// The best come first, and among equals the newest; a result counts for its call, too.
func TestPinRelevant(t *testing.T) {
	score := map[string]int{"a": 300_000, "b": 500_000, "c": 0, "d": 500_000, "e": 900_000}
	table := func(config map[string]any) *mnemetest.Table {
		return &mnemetest.Table{Config: config, Score: func(text, _ string) int { return score[text] },
			Records: []mnemetest.Record{
				{Turn: 1, Atom: 1, Role: mneme.User, Text: "a"},
				{Turn: 1, Atom: 2, Role: mneme.Assistant, Kind: mneme.Call, Text: "c"},
				{Turn: 1, Atom: 2, Role: mneme.Tool, Kind: mneme.Result, Text: "b"},
				{Turn: 2, Atom: 3, Role: mneme.User, Text: "c"},
				{Turn: 2, Atom: 4, Role: mneme.Assistant, Text: "d"},
				{Turn: 2, Atom: 5, Role: mneme.Assistant, Text: "e", Flags: mneme.Pinned},
				{Turn: 3, Atom: 6, Role: mneme.User, Text: "q", Flags: mneme.Mandatory},
			}}
	}
	for name, c := range map[string]struct {
		config map[string]any
		want   string
	}{
		"defaults": {nil, "[4-4 1-2 0-0]"},
		"two":      {map[string]any{"count": 2}, "[4-4 1-2]"},
		"none":     {map[string]any{"count": 0}, "[]"},
		"the best": {map[string]any{"least": 400_000}, "[4-4 1-2]"},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := mnemetest.Run(pinRelevant, table(c.config))
			if err != nil {
				t.Fatal(err)
			}
			kept := []string{}
			for _, op := range result.Ops {
				if op.Code != mneme.OpKeep {
					t.Errorf("op %v", op)
				}
				kept = append(kept, fmt.Sprintf("%d-%d", op.First, op.Last))
			}
			if got := fmt.Sprint(kept); got != c.want {
				t.Errorf("keeps %s, want %s", got, c.want)
			}
		})
	}
}
