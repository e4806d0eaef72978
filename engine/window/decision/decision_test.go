package decision

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/callid"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// What encode writes, the record reads, whatever the request's bytes are: they are kept as they came.
func TestRecordsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	const request = "{ \"system\" : \"a < b\"\n}"
	in := Record{At: 1, Seed: 1<<64 - 1, Session: "s", Extent: Extent{[8]byte{1}, 2, 3, nil, 4}, Tokens: 4, Bare: true,
		Tight: true, Summary: 4, Memories: []reminder.Memory{{Key: "k", Incarnation: [8]byte{5}, Version: 6}}, Revision: 7, Window: "ab",
		Usage: Usage{Messages: 8, ConsideredTokens: 9}, Effective: "cd", Request: json.RawMessage(request),
		Steps: []Step{{"p", 1, "sha256:ef", 10, 11, plan.StatusTrap, "<trap>", []LogLine{{"info", "x"}}}}}
	in.Rules, in.Shortened, in.Cut = 12, true, true
	in.Prompt = Prompt{End: prefix.Start(prefix.Text("s"), prefix.Hash{}).Place, Breakpoints: []int{-1, 3}}
	in.Usage.Prefix = &Prefix{1, 2, .5}
	in.Reminder = &reminder.Current{Pending: 3, Again: true, Bound: reminder.Bound{Before: 4, AsSystem: true, Words: 5, Encoding: 1,
		Memories: in.Memories, Of: 6, Asked: 7}}
	in.Forgotten = in.Memories
	in.ForkOf, in.Names = "dec_x", callid.Own{"a_b": "a.b"}
	for _, v := range reflect.ValueOf(in).Fields() {
		if v.IsZero() {
			t.Errorf("the test leaves out a %s", v.Type())
		}
	}
	b, err := in.encode()
	if err != nil {
		t.Fatal(err)
	}
	var out Record
	if err := json.Unmarshal(b, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%s was read as %+v, %v", b, out, err)
	}
	placed, err := in.Prompt.End.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	// As decisions were written before: fields in another order, and some that were left out.
	before := `{"rules":12,"fork_of":"dec_x","at":1,"seed":"18446744073709551615","session":"s","extent":{"incarnation":"0100000000000000",
		"turns":2,"messages":3},"bare":true,"tight":true,"shortened":true,"summary":4,"memories":[{"key":"k",
		"incarnation":"0500000000000000","version":6}],"revision":7,"window":"ab","usage":{"messages":8,"tokens":0,
		"prefix":{"messages":1,"tokens":2,"share":0.5},"history_messages":0,"history_tokens":0,"system_tokens":0,"considered_messages":0,"considered_tokens":9},
		"cut":true,"prompt":{"end":"` + string(placed) + `","breakpoints":[-1,3]},"effective":"cd","steps":[{"policy":"p","version":1,"digest":"sha256:ef","fuel":10,"duration_us":11,
		"outcome":"` + string(plan.StatusTrap) + `","detail":"<trap>","log":[{"level":"info","message":"x"}]}],
		"request":` + request + `}`
	out = Record{}
	in.Tokens, in.Names, in.Reminder, in.Forgotten, in.Extent.Edits = 0, nil, nil, nil, 0
	if err := json.Unmarshal([]byte(before), &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("it was read as %+v, %v", out, err)
	}
}

// A name is read back only as it is written, and says where the decision lies.
func TestIDs(t *testing.T) {
	t.Parallel()
	id := ID{7, [8]byte{1, 2}, [14]byte{3, 4}}
	if got, ok := parseID(id.String()); !ok || got != id {
		t.Errorf("%s was read as %v, %v", id, got, ok)
	}
	pinc := [8]byte{9}
	if p, got := splitKey(id.key(pinc)); p != pinc || got != id {
		t.Errorf("its key was read as %v of %v", got, p)
	}
	for _, wrong := range []string{"", "dec_", id.String()[1:], id.String() + "0", id.String()[:len(id.String())-1]} {
		if _, ok := parseID(wrong); ok {
			t.Errorf("%q is no name", wrong)
		}
	}
}
