package lab_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// A policy that breaks the validity check is shown with what it did and with the rule. No other policy steps in.
func TestRunningALawlessPolicy(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("drops", wasmtest.Policy(wasmtest.Manifest("drops"), wasmtest.DropFirst()))
	got := run(k, "drops", 1, `{"messages":[`+enginetest.User("only this")+`]}`)
	var more struct {
		Outcome   string
		Step      int
		Violation *struct{ Rule, Detail string }
	}
	if err := json.Unmarshal(got.Raw, &more); err != nil {
		t.Fatal(err)
	}
	if more.Violation == nil || more.Violation.Rule != "mandatory" || more.Outcome != "ok" || len(got.Pipeline) != 1 ||
		got.Report[0].Action != "drop" || got.Report[0].Policy != "drops" || len(got.Messages) != 0 {
		t.Errorf("%s", got.Raw)
	}
	lawful := run(k, "drops", 1, `{"messages":[`+enginetest.User("old")+`,`+enginetest.User("new")+`]}`)
	if !strings.Contains(string(lawful.Raw), `"violation":null`) {
		t.Errorf("%s", lawful.Raw)
	}
}

// There is no budget unless the request gives one, whatever the project's default is.
func TestRunningWithoutABudget(t *testing.T) {
	k := enginetest.New(t)
	var messages []string
	for i := range 120 {
		messages = append(messages, enginetest.User(fmt.Sprint("question ", i)))
	}
	all := `{"messages":[` + strings.Join(messages, ",")
	if got := run(k, "tool-pair-trim", 1, all+`],"config":{"depth":100,"depth_step":100}}`); len(got.Messages) != 120 {
		t.Errorf("%d messages without a budget", len(got.Messages))
	}
	if got := run(k, "tool-pair-trim", 1, all+`],"budget":{"max_messages":10}}`); got.Usage["history_messages"] > 10 {
		t.Errorf("%d messages with one", got.Usage["history_messages"])
	}
}

// A policy that is run on a decision sees what the step saw, after the steps before it, with the decision's request,
// even if the session has grown since.
func TestRunningOnADecision(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("by-tag", enginetest.Tagged(t))
	k.Upload("drops", wasmtest.Policy(wasmtest.Manifest("drops"), wasmtest.DropFirst()))
	k.SetPipeline(`[{"policy":"drops"},{"policy":"by-tag","config":{"tag":"x"}}]`)
	k.Post("s", enginetest.User("first"), enginetest.WithTag("one", "x"), enginetest.WithTag("two", "y"))
	w := k.Ask(`{"session_id":"s","explain":true,"system":"Be kind.","format":"anthropic.messages",
		"pending":[%s]}`, enginetest.User("three"))
	k.Post("s", enginetest.WithTag("later", "x"))

	same := run(k, "by-tag", 1, fmt.Sprintf(`{"project_id":"default","decision_id":%q}`, w.DecisionID))
	if !reflect.DeepEqual(same.Messages, w.Messages) || same.System != w.System ||
		!reflect.DeepEqual(same.Report, w.Report) || same.Fuel != w.Pipeline[1].Fuel ||
		!reflect.DeepEqual(same.Usage, w.Usage) {
		t.Errorf("%s\n%s", same.Raw, w.Raw)
	}
	other := run(k, "by-tag", 1, fmt.Sprintf(`{"project_id":"default","decision_id":%q,"config":{"tag":"y"}}`, w.DecisionID))
	if len(other.Report) != len(w.Report) || other.Report[1].Action != "drop" || other.Report[2].Action != "keep" ||
		other.Report[0].Policy != "drops" {
		t.Errorf("%s", other.Raw)
	}
	first := run(k, "by-tag", 1, fmt.Sprintf(`{"project_id":"default","decision_id":%q,"step":0,"config":{"tag":"x"}}`,
		w.DecisionID))
	if len(first.Pipeline) != 1 || first.Report[0].Policy != "by-tag" {
		t.Errorf("%s", first.Raw)
	}
	small := run(k, "tool-pair-trim", 1, fmt.Sprintf(
		`{"project_id":"default","decision_id":%q,"step":2,"budget":{"max_messages":1}}`, w.DecisionID))
	if len(small.Pipeline) != 3 || small.Usage["history_messages"] != 1 {
		t.Errorf("%s", small.Raw)
	}
	for request, field := range map[string]string{
		`{"project_id":"default","decision_id":"%s","step":3}`:      "step",
		`{"project_id":"default","decision_id":"%s","messages":[]}`: "messages",
		`{"project_id":"default","decision_id":"%s","system":"x"}`:  "system",
		`{"decision_id":"%s"}`: "project_id",
		`{"project_id":"default","messages":[{"role":"user","content":"%s"}]}`: "decision_id",
		`{"project_id":"default","decision_id":"%s","viewer":{"agent":"a"}}`:   "viewer",
	} {
		var req lab.RunRequest
		if err := json.Unmarshal(fmt.Appendf(nil, request, w.DecisionID), &req); err != nil {
			t.Fatal(err)
		}
		_, err := k.Trials.Run(t.Context(), k.Admin, "by-tag", 1, &req, nil)
		known, ok := errors.AsType[*fault.Error](err)
		if !ok || known.Kind != fault.Invalid || len(known.Fields) != 1 || known.Fields[0].Field != field {
			t.Errorf("%s: %v", request, err)
		}
	}
	var req lab.RunRequest
	if err := json.Unmarshal([]byte(`{"project_id":"default","decision_id":"dec_none"}`), &req); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Trials.Run(t.Context(), k.Admin, "by-tag", 1, &req, nil); err == nil {
		t.Error("a decision that is not there was run on")
	}
}
