package main

import (
	"fmt"
	"strings"
	"testing"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

func Example() {
	result, err := mnemetest.Run(redact, &mnemetest.Table{Records: []mnemetest.Record{
		{Turn: 1, Atom: 1, Role: mneme.User, Text: "My key is sk-12ab."},
		{Turn: 1, Atom: 2, Role: mneme.Assistant, Kind: mneme.Call, Calls: []mnemetest.CallOf{
			{Name: "login", Arguments: `{"key":"sk-12ab"}`}, {Name: "time", Arguments: `{}`}}},
	}})
	for _, op := range result.Ops {
		fmt.Printf("%d to %d: %s (%s)\n", op.First, op.Last, op.Text, op.Reason)
	}
	fmt.Println("error:", err)
	// Output:
	// 0 to 1: sk-12ab (secret: begins with sk-)
	// error: <nil>
}

func TestRedact(t *testing.T) {
	long := strings.Repeat("word ", 5000)
	call := func(arguments string) mnemetest.Record {
		return mnemetest.Record{Role: mneme.Assistant, Kind: mneme.Call, Calls: []mnemetest.CallOf{{Arguments: arguments}}}
	}
	for name, c := range map[string]struct {
		record mnemetest.Record
		want   string // the masked words
		failed bool
	}{
		"inside a word":          {record: mnemetest.Record{Role: mneme.User, Text: "ask-me"}, want: "sk-me"},
		"none at all":            {record: mnemetest.Record{Role: mneme.User, Text: "nothing to hide"}},
		"two secrets":            {record: mnemetest.Record{Role: mneme.Tool, Text: "sk-a_1 sk-b-2!"}, want: "sk-a_1 sk-b-2"},
		"the prefix only":        {record: mnemetest.Record{Role: mneme.User, Text: "sk-"}},
		"a long result":          {record: mnemetest.Record{Role: mneme.Tool, Text: long + "sk-1"}, want: "sk-1"},
		"a long question":        {record: mnemetest.Record{Role: mneme.User, Text: "sk-0 " + long + "sk-1 " + long}, want: "sk-0 sk-1"},
		"long arguments":         {record: call(long)},
		"across pieces":          {record: call(long[:16<<10-2] + "sk-1 " + long), want: "sk-1"},
		"a word across pieces":   {record: call(long[:16<<10-9] + "sk-" + strings.Repeat("x", 200) + " " + long), want: "sk-" + strings.Repeat("x", 200)},
		"up to a piece":          {record: call(long[:16<<10-5] + "sk-12" + " " + long), want: "sk-12"},
		"too long to be masked":  {record: call("sk-" + strings.Repeat("x", 300)), failed: true},
		"too long across pieces": {record: call(long[:16<<10-9] + "sk-" + strings.Repeat("x", 300)), failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := mnemetest.Run(redact, &mnemetest.Table{Records: []mnemetest.Record{c.record}})
			if (err != nil) != c.failed {
				t.Fatal(err)
			}
			var masked []string
			for _, op := range result.Ops {
				masked = append(masked, op.Text)
			}
			got := strings.Join(masked, " ")
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
