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
		fmt.Printf("%d: %s (%s)\n", op.First, op.Text, op.Reason)
	}
	fmt.Println("error:", err)
	// Output:
	// 0: My key is [redacted]. (secret: begins with sk-)
	// 1: {"key":"[redacted]"} (secret: begins with sk-)
	// error: <nil>
}

func TestRedact(t *testing.T) {
	long := strings.Repeat("word ", 5000)
	for name, c := range map[string]struct {
		record mnemetest.Record
		want   string // the expected text, "" if it does not change
		failed bool
	}{
		"no secret":       {record: mnemetest.Record{Role: mneme.User, Text: "ask-me"}, want: "a[redacted]"},
		"none at all":     {record: mnemetest.Record{Role: mneme.User, Text: "nothing to hide"}},
		"two secrets":     {record: mnemetest.Record{Role: mneme.Tool, Text: "sk-a_1 sk-b-2!"}, want: "[redacted] [redacted]!"},
		"the prefix only": {record: mnemetest.Record{Role: mneme.User, Text: "sk-"}, want: "[redacted]"},
		"a long result":   {record: mnemetest.Record{Role: mneme.Tool, Text: long + "sk-1"}, want: "stub"},
		"a long question": {record: mnemetest.Record{Role: mneme.User, Text: long + "sk-1"}, failed: true},
		"long arguments": {record: mnemetest.Record{Role: mneme.Assistant, Kind: mneme.Call,
			Calls: []mnemetest.CallOf{{Arguments: long}}}},
		"a secret in long arguments": {record: mnemetest.Record{Role: mneme.Assistant, Kind: mneme.Call,
			Calls: []mnemetest.CallOf{{Arguments: long[:16<<10-2] + "sk-1"}}}, failed: true},
		"a secret at their end": {record: mnemetest.Record{Role: mneme.Assistant, Kind: mneme.Call,
			Calls: []mnemetest.CallOf{{Arguments: long + "sk-"}}}, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := mnemetest.Run(redact, &mnemetest.Table{Records: []mnemetest.Record{c.record}})
			if (err != nil) != c.failed {
				t.Fatal(err)
			}
			got := ""
			for _, op := range result.Ops {
				got = op.Text
				if op.Code == mneme.OpStub {
					got = "stub"
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
