package main

import (
	"fmt"
	"strings"
	"testing"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

func Example() {
	candidate := mnemetest.CandidateOf(`{"content":"The user lives in Porto"}`, mnemetest.Memory{Trust: mneme.TrustModel})
	known := mnemetest.MemoryOf(`{"key":"home","content":"The user lives in Porto, in Rua Nova"}`,
		mnemetest.Memory{Trust: mneme.TrustUser, Flags: mneme.Covers})
	result, err := mnemetest.Run(admit, &mnemetest.Table{Hook: mneme.Admit, Origin: mneme.FromTool,
		Records: []mnemetest.Record{candidate, known}})
	for _, op := range result.Ops {
		fmt.Printf("record %d goes into record %d: %s\n", op.Last, op.First, op.Reason)
	}
	fmt.Println("error:", err)
	// Output:
	// record 0 goes into record 1: known
	// error: <nil>
}

func TestAdmit(t *testing.T) {
	long := `{"content":"` + strings.Repeat("x", 2001) + `"}`
	for name, c := range map[string]struct {
		origin    mneme.Origin
		spec      string
		candidate mnemetest.Memory
		known     mnemetest.Memory
		want      string
	}{
		"a tool's essay": {mneme.FromTool, long, mnemetest.Memory{}, mnemetest.Memory{}, "[11 0..0]"},
		"a user's essay": {mneme.FromTool, long, mnemetest.Memory{Trust: mneme.TrustUser}, mnemetest.Memory{}, "[]"},
		"an import":      {mneme.FromAPI, long, mnemetest.Memory{}, mnemetest.Memory{}, "[]"},
		"news":           {mneme.FromTool, `{"content":"x"}`, mnemetest.Memory{}, mnemetest.Memory{}, "[]"},
		"known":          {mneme.FromTool, `{"content":"x"}`, mnemetest.Memory{}, mnemetest.Memory{Flags: mneme.Equal}, "[13 1..0]"},
		"under a chosen key": {mneme.FromAPI, `{"content":"x"}`, mnemetest.Memory{Key: "a", Flags: mneme.ClientKey},
			mnemetest.Memory{Key: "b", Flags: mneme.Equal}, "[]"},
	} {
		result, err := mnemetest.Run(admit, &mnemetest.Table{Hook: mneme.Admit, Origin: c.origin, Records: []mnemetest.Record{
			mnemetest.CandidateOf(c.spec, c.candidate), mnemetest.MemoryOf(`{"content":"x"}`, c.known)}})
		if got := shown(result.Ops); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
}

func shown(ops []mnemetest.Op) string {
	all := []string{}
	for _, op := range ops {
		all = append(all, fmt.Sprintf("%d %d..%d", op.Code, op.First, op.Last))
	}
	return fmt.Sprint(all)
}

func TestRetain(t *testing.T) {
	old := mnemetest.Memory{Category: mneme.Conversation}
	pinned, used, core := old, old, old
	pinned.Flags, used.LastRecalled, core.Category = mneme.PinnedMemory, 999*day, mneme.Core
	table := &mnemetest.Table{Hook: mneme.Retain, Now: 1000 * day}
	for _, m := range []mnemetest.Memory{pinned, used, core, old} {
		table.Records = append(table.Records, mnemetest.MemoryOf(`{"content":"x"}`, m))
	}
	result, err := mnemetest.Run(retain, table)
	if got := shown(result.Ops); err != nil || got != "[15 3..3]" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestRecall(t *testing.T) {
	table := &mnemetest.Table{Hook: mneme.Recall, Now: 1000 * day, Records: []mnemetest.Record{mnemetest.QueryOf("who?")}}
	for _, at := range []int64{1000, 900, 1} {
		table.Records = append(table.Records, mnemetest.MemoryOf(`{"content":"x"}`, mnemetest.Memory{Score: 800, Occurred: at * day}))
	}
	result, err := mnemetest.Run(recall, table)
	if err != nil || len(result.Ops) != 2 || result.Ops[0].Argument != 400 || result.Ops[1].Argument != 0 {
		t.Errorf("%+v, %v", result.Ops, err)
	}
}
