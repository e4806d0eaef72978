package lab_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

type ran struct {
	enginetest.Window
	Policy  string
	Version int
	Fuel    uint64
}

func run(k *enginetest.Kit, name string, version int, request string) ran {
	k.Helper()
	var req lab.RunRequest
	if err := json.Unmarshal([]byte(request), &req); err != nil {
		k.Fatal(err)
	}
	b, err := k.Trials.Run(k.Context(), k.Admin, name, version, &req, nil)
	if err != nil {
		k.Fatal(err)
	}
	out := ran{Window: enginetest.Window{Raw: b}}
	if err := json.Unmarshal(b, &out); err != nil {
		k.Fatalf("%v: %s", err, b)
	}
	return out
}

// Running a policy on a transcript shows its window, report and fuel, each time the same, and stores nothing.
func TestRunningAPolicy(t *testing.T) {
	raw := &enginetest.Counting{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	k.Upload("by-tag", enginetest.Tagged(t))
	k.Post("s", enginetest.WithTag("one", "x"), enginetest.Assistant("two"))
	k.Post("s", enginetest.User("three"))
	file, err := k.Sessions.Export(t.Context(), k.Admin, ident.DefaultProject, "s")
	if err != nil {
		t.Fatal(err)
	}
	exported, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	raw.Reset()
	messages := enginetest.WithTag("one", "x") + `,` + enginetest.Assistant("two") + `,` + enginetest.User("three")
	first := run(k, "by-tag", 1, `{"messages":[`+messages+`],"config":{"tag":"x"}}`)
	if first.Policy != "by-tag" || first.Version != 1 || first.Fuel == 0 || len(first.Messages) != 2 ||
		len(first.Report) != 3 ||
		first.Report[1].ReasonCode != "untagged" || first.Report[2].Turn != 2 || first.DecisionID != "" {
		t.Fatalf("%s", first.Raw)
	}
	for range 3 {
		again := run(k, "by-tag", 1, `{"transcript":`+string(exported)+`,"config":{"tag":"x"}}`)
		if again.Fuel != first.Fuel || !reflect.DeepEqual(again.Messages, first.Messages) ||
			!reflect.DeepEqual(again.Report, first.Report) {
			t.Fatalf("%s\n%s", again.Raw, first.Raw)
		}
	}
	pending := run(k, "by-tag", 1, `{"messages":[`+messages+`],"pending":[`+enginetest.User("four")+`],"format":"anthropic.messages"}`)
	if len(pending.Report) != 4 || pending.Report[3].MessageID != "pending:0" || pending.Report[2].Action != "drop" {
		t.Errorf("%s", pending.Raw)
	}
	built := run(k, "tool-pair-trim", 1, `{"messages":[`+messages+`],"budget":{"max_messages":1}}`)
	if built.Pipeline[0].Outcome != "ok" || len(built.Report) != 3 || built.Report[0].Action != "compress" {
		t.Errorf("%s", built.Raw)
	}
	for _, test := range []struct{ request, code string }{
		{`{}`, "required"},
		{`{"messages":[{"role":"tool","tool_call_id":"c","content":"x"}]}`, "invalid_messages"},
		{`{"messages":[` + messages + `],"config":{"tagg":"x"}}`, "invalid_config"},
		{`{"messages":[],"transcript":{"version":1,"session":{"id":"s"}}}`, "invalid_value"},
	} {
		var req lab.RunRequest
		if err := json.Unmarshal([]byte(test.request), &req); err != nil {
			t.Fatal(err)
		}
		_, err := k.Trials.Run(t.Context(), k.Admin, "by-tag", 1, &req, nil)
		enginetest.RefusedWith(t, err, fault.Invalid, test.code)
	}
	if raw.Commits != 0 {
		t.Errorf("%d commits", raw.Commits)
	}
	_, err = k.Trials.Run(t.Context(), k.Admin, "by-tag", 2, &lab.RunRequest{}, nil)
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
}

// A replay of real sessions lists the messages whose outcome would differ, and stores nothing.
func TestReplayingSessions(t *testing.T) {
	raw := &enginetest.Counting{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	k.Upload("p", enginetest.Keeping("replay"))
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("replay"), wasmtest.DropFirst()))
	k.Upload("p", wasmtest.Policy(wasmtest.Manifest("replay"), wasmtest.Trap()))
	for i := range 3 {
		session := fmt.Sprint("s", i)
		for turn := range i + 1 {
			k.Post(session, enginetest.User(fmt.Sprint("question ", turn)))
		}
	}
	replay := func(version int, request string) lab.Replay {
		t.Helper()
		var req lab.ReplayRequest
		if err := json.Unmarshal([]byte(request), &req); err != nil {
			t.Fatal(err)
		}
		out, err := k.Trials.Replay(t.Context(), k.Admin, "p", version, req)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	k.SetPipeline(`[{"policy":"p"},{"policy":"tool-pair-trim"}]`)
	before := k.Ask(`{"session_id":"s2"}`)
	raw.Reset()
	r := replay(2, `{"project_id":"default","sessions":["s1","s2"],"against":"live"}`)
	if *r.Against != 1 || len(r.Sessions) != 2 || r.Totals.ChangedMessages != 2 {
		t.Fatalf("%+v", r)
	}
	s := r.Sessions[1]
	if s.SessionID != "s2" || s.Turns != 3 || s.Messages.Before != 3 || s.Messages.After != 2 ||
		s.Tokens.Before <= s.Tokens.After ||
		len(s.Changed) != 1 || s.Changed[0].Turn != 1 || s.Changed[0].Before.Action != "keep" ||
		s.Changed[0].After.Action != "drop" ||
		s.Failures.After != 0 || s.Fuel.Before == 0 {
		t.Errorf("%+v", s)
	}
	// s0 has one message, which is mandatory: the validity check rejects the policy's plan, and only the failure
	// differs.
	r = replay(2, `{"project_id":"default"}`)
	if len(r.Sessions) != 3 || r.Sessions[0].ChangedMessages != 0 || r.Sessions[0].Failed.After[0].Outcome != "fallback" {
		t.Errorf("%+v", r)
	}
	r = replay(3, `{"project_id":"default","sessions":["s2"],"against":"2"}`)
	if s = r.Sessions[0]; s.Failures.Before != 0 || s.Failures.After != 1 || s.Failed.After[0].Outcome != "trap" ||
		s.Failed.After[0].Version != 3 || s.ChangedMessages != 1 || s.Changed[0].After.Action != "keep" {
		t.Errorf("%+v", s)
	}
	if r = replay(1, `{"project_id":"default","against":"live"}`); r.Totals.ChangedMessages != 0 {
		t.Errorf("%+v", r)
	}
	k.SetPipeline(`null`) // does not contain the policy, which then runs first
	if r = replay(2, `{"project_id":"default","sessions":["s2"],"against":"none"}`); r.Against != nil ||
		r.Totals.ChangedMessages != 1 {
		t.Errorf("%+v", r)
	}
	if raw.Commits != 1 { // of the settings
		t.Errorf("%d commits", raw.Commits)
	}
	if p, err := k.Policies.GetVersion(t.Context(), k.Admin, "p", 3); err != nil || p.Failures != 0 {
		t.Errorf("%+v %v: replaying is not using", p, err)
	}
	k.Replay(before.DecisionID)
	for _, test := range []struct {
		request string
		kind    fault.Kind
	}{
		{`{"project_id":"none"}`, fault.NotFound},
		{`{"project_id":"default","sessions":["none"]}`, fault.NotFound},
		{`{"project_id":"default","against":"9"}`, fault.Invalid},
		{`{"project_id":"default","against":"dead"}`, fault.Invalid},
	} {
		var req lab.ReplayRequest
		if err := json.Unmarshal([]byte(test.request), &req); err != nil {
			t.Fatal(err)
		}
		_, err := k.Trials.Replay(t.Context(), k.Admin, "p", 1, req)
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != test.kind {
			t.Errorf("%s: %v", test.request, err)
		}
	}
}
