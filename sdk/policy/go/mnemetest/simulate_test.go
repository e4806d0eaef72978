package mnemetest_test

import (
	"fmt"
	"strings"
	"testing"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// asking asks once, and stores what the answer says.
func asking(req *mneme.Request, plan *mneme.Plan) error {
	last := req.Len() - 1
	if req.Record(last).Kind != mneme.Answer {
		plan.Ask(0, last, 100, plan.Text("What is the name?"), plan.Text("name"))
		return nil
	}
	var name [64]byte
	n := req.JSON(last, "/name", name[:])
	if n < 0 {
		req.Log(mneme.Warn, "no name")
		return nil
	}
	plan.Store(0, 0, plan.Text(`{"key":"name","content":"`).Str(string(name[:n])).Str(`","quote":"I am Ana"}`), plan.Text("said"))
	return nil
}

func ExampleConverse() {
	table := &mnemetest.Table{Hook: mneme.Remember, Records: []mnemetest.Record{{Role: mneme.User, Seq: 1, Text: "I am Ana"}}}
	results, err := mnemetest.Converse(asking, table, func(prompt string, _ []mnemetest.Record) string {
		return `{"name":"Ana"}`
	})
	fmt.Println(results[0].Ops[0].Text)
	fmt.Println(results[1].Ops[0].Text)
	fmt.Println("error:", err)
	// Output:
	// What is the name?
	// {"key":"name","content":"Ana","quote":"I am Ana"}
	// error: <nil>
}

// A model gets only what a host would send, and an answer that is no JSON is told apart.
func TestConverse(t *testing.T) {
	table := &mnemetest.Table{Hook: mneme.Remember, Records: []mnemetest.Record{
		{Role: mneme.User, Text: "I am Ana"}, {Role: mneme.Assistant, Kind: mneme.Call, Text: "calls"},
		{Role: mneme.Tool, Kind: mneme.Result, Text: "secret"}, {Role: mneme.User, Delegation: 1, Text: "delegated"},
		mnemetest.MemoryOf(`{"key":"k","content":"known"}`, mnemetest.Memory{})}}
	var sent []string
	results, err := mnemetest.Converse(asking, table, func(_ string, records []mnemetest.Record) string {
		for _, r := range records {
			sent = append(sent, r.Text)
		}
		return "no JSON"
	})
	if err != nil || strings.Join(sent, ", ") != "I am Ana, known" {
		t.Errorf("sent %q, %v", sent, err)
	}
	if len(results) != 2 || len(results[1].Ops) != 0 || len(results[1].Log) != 1 {
		t.Errorf("%+v", results)
	}
}

// Plans that the validity check refuses are refused here, too.
func TestCheckOfHooks(t *testing.T) {
	plain, pinned := mnemetest.Memory{Trust: mneme.TrustModel}, mnemetest.Memory{Trust: mneme.TrustModel, Flags: mneme.PinnedMemory}
	records := func(first mneme.Kind) []mnemetest.Record {
		all := []mnemetest.Record{mnemetest.CandidateOf(`{"content":"a"}`, mnemetest.Memory{Key: "a", Trust: mneme.TrustTool}),
			mnemetest.MemoryOf(`{"content":"b"}`, plain), mnemetest.MemoryOf(`{"content":"c"}`, pinned)}
		all[0].Kind = first
		return all
	}
	for name, c := range map[string]struct {
		hook mneme.Hook
		op   mnemetest.Op
		ok   bool
	}{
		"refuse":                {mneme.Admit, mnemetest.Op{Code: mneme.OpRefuse, Reason: "noise"}, true},
		"refuse, no reason":     {mneme.Admit, mnemetest.Op{Code: mneme.OpRefuse}, false},
		"merge":                 {mneme.Admit, mnemetest.Op{Code: mneme.OpMerge, First: 2, Argument: mneme.KeepStored}, true},
		"less trusted":          {mneme.Admit, mnemetest.Op{Code: mneme.OpMerge, First: 1}, false},
		"keep the less trusted": {mneme.Retain, mnemetest.Op{Code: mneme.OpMerge, Last: 1, Argument: mneme.KeepStored}, false},
		"forget in admit":       {mneme.Admit, mnemetest.Op{Code: mneme.OpForget, First: 1, Last: 1}, false},
		"forget":                {mneme.Retain, mnemetest.Op{Code: mneme.OpForget, First: 1, Last: 1}, true},
		"forget a pinned one":   {mneme.Retain, mnemetest.Op{Code: mneme.OpForget, First: 2, Last: 2}, false},
		"store from a memory":   {mneme.Remember, mnemetest.Op{Code: mneme.OpStore, First: 1, Last: 1, Text: `{"content":"x"}`}, false},
		"rank":                  {mneme.Recall, mnemetest.Op{Code: mneme.OpRank, First: 1, Last: 1, Argument: 5}, true},
		"rank the query":        {mneme.Recall, mnemetest.Op{Code: mneme.OpRank, Argument: 5}, false},
	} {
		first := mneme.Candidate
		if c.hook == mneme.Recall {
			first = mneme.Query
		}
		table := &mnemetest.Table{Hook: c.hook, Records: records(first)}
		if err := table.Check([]mnemetest.Op{c.op}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
