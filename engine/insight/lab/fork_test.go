package lab_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

type forked struct {
	enginetest.Window
	Said lab.Fork `json:"-"`
}

func fork(k *enginetest.Kit, id, request string) (out forked, err error) {
	k.Helper()
	var req lab.ForkRequest
	if err := json.Unmarshal([]byte(request), &req); err != nil {
		k.Fatal(err)
	}
	b, err := k.Trials.Fork(k.Context(), k.Admin, ident.DefaultProject, id, &req, nil)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(b, &out.Window); err != nil {
		k.Fatalf("%v: %s", err, b)
	}
	out.Raw = b
	return out, json.Unmarshal(b, &out.Said)
}

// A fork is the window that would have been made at that moment with the other rules, whatever happened since. It
// stores nothing.
func TestForksAreWhatWouldHaveBeen(t *testing.T) {
	raw := &enginetest.Counting{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	for i := range 30 {
		k.Post("s", enginetest.User(fmt.Sprint("question ", i)), enginetest.Call(fmt.Sprint("c", i), "tool"),
			enginetest.Result(fmt.Sprint("c", i), fmt.Sprint("result ", i)), enginetest.Assistant(fmt.Sprint("answer ", i)))
	}
	const pending = `"session_id":"s","explain":true,"pending":[{"role":"user","content":"now?"}]`
	w := k.Ask(`{%s,"viewer":{"agent":"a"}}`, pending)
	// Make the window with the other rules at the same moment in two ways: by a request, and by a fork.
	type pair struct{ fork, request string }
	pairs := map[string]pair{
		"nothing":  {`{}`, `"viewer":{"agent":"a"}`},
		"budget":   {`{"budget":{"max_messages":9}}`, `"budget":{"max_messages":9},"viewer":{"agent":"a"}`},
		"tokens":   {`{"budget":{"max_tokens":300}}`, `"budget":{"max_tokens":300},"viewer":{"agent":"a"}`},
		"pipeline": {`{"pipeline":[{"policy":"tool-pair-trim"}]}`, `"pipeline":[{"policy":"tool-pair-trim"}],"viewer":{"agent":"a"}`},
		"format": {`{"format":"anthropic.messages"}`,
			`"format":"anthropic.messages","pending_format":"openai.chat","viewer":{"agent":"a"}`},
		"viewer": {`{"viewer":{"agent":"b"}}`, `"viewer":{"agent":"b"}`},
		"depth": {`{"settings":{"session_history_depth":3}}`, `"viewer":{"agent":"a"},"pipeline":[{"policy":"delegation-filter"},
			{"policy":"summarise"},{"policy":"depth-compress","config":{"depth":3}},{"policy":"tool-pair-trim"}]`},
	}
	want := map[string]enginetest.Window{}
	for name, p := range pairs {
		want[name] = k.Ask(`{%s,"record":false,%s}`, pending, p.request)
	}
	for i := range 40 { // later messages are not part of it
		k.Post("s", enginetest.User(fmt.Sprint("later ", i)), enginetest.Assistant("then"))
	}
	k.SetIn(ident.DefaultProject, `{"history_max_messages":4}`)
	for name, p := range pairs {
		raw.Reset()
		f, err := fork(k, w.DecisionID, p.fork)
		if err != nil {
			t.Fatal(name, err)
		}
		if raw.Commits != 0 || f.DecisionID != "" || f.Said.ForkOf != w.DecisionID {
			t.Errorf("%s: %d commits, %+v", name, raw.Commits, f.Said)
		}
		if w := want[name]; fmt.Sprintf("%s", f.Messages) != fmt.Sprintf("%s", w.Messages) || !reflect.DeepEqual(f.Usage["tokens"], w.Usage["tokens"]) {
			t.Errorf("%s: the fork is\n%s\nnot\n%s", name, f.Raw, w.Raw)
		}
		changed := 0
		for i := range w.Report {
			for j := range f.Report {
				a, b := w.Report[i], f.Report[j]
				if a.Action != "inject" && a.MessageID != "" && a.MessageID == b.MessageID &&
					(a.Action != b.Action || a.ReasonCode != b.ReasonCode || a.After != b.After) {
					changed++
				}
			}
		}
		if d := f.Said.Differs; d.ChangedMessages != changed || len(d.Changed) != changed || name == "nothing" && changed != 0 ||
			(name == "budget" || name == "depth") && changed == 0 {
			t.Errorf("%s: %d messages differ, the reports say %d", name, d.ChangedMessages, changed)
		}
	}
	// A recorded fork is a decision: it can be listed, explained and replayed.
	f, err := fork(k, w.DecisionID, `{"budget":{"max_messages":9},"record":true}`)
	if err != nil {
		t.Fatal(err)
	}
	k.Replay(f.DecisionID)
	k.Replay(w.DecisionID)
	d, err := k.Trials.Decision(t.Context(), k.Admin, ident.DefaultProject, f.DecisionID)
	if err != nil || d.ForkOf != w.DecisionID || d.Usage.Messages != uint64(len(f.Messages)) {
		t.Errorf("%+v %v", d, err)
	}
	for _, f := range enginetest.Verified(t, raw.Store).Findings {
		t.Errorf("%+v", f)
	}
	// Errors are reported.
	for request, code := range map[string]string{`{"settings":{"depth":1}}`: "unknown_field",
		`{"settings":{"session_history_depth":0}}`: "out_of_range", `{"pipeline":[{"policy":"none"}]}`: "unknown_policy",
		`{"budget":{"max_messages":-1}}`: "out_of_range", `{"format":"xml"}`: "invalid_value",
		`{"budget":{"max_tokens":1}}`: "budget_too_small"} {
		_, err := fork(k, w.DecisionID, request)
		enginetest.RefusedWith(t, err, fault.Invalid, code)
	}
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "s"); err != nil {
		t.Fatal(err)
	}
	_, err = fork(k, w.DecisionID, `{}`)
	enginetest.RefusedWith(t, err, fault.Gone, "session_purged")
}

// A decision whose session was rewound later is explained, replayed and forked as it was.
func TestForksOfRewoundSessions(t *testing.T) {
	k := enginetest.New(t)
	for i := range 12 {
		k.Post("s", enginetest.User(fmt.Sprint("question ", i)), enginetest.Assistant(fmt.Sprint("answer ", i)))
	}
	w := k.Ask(`{"session_id":"s","explain":true}`)
	five := uint32(5)
	req := session.RewindRequest{ToTurn: &five}
	if _, err := k.Sessions.Rewind(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "s", req); err != nil {
		t.Fatal(err)
	}
	k.Post("s", enginetest.User("another way"))
	k.Replay(w.DecisionID)
	f, err := fork(k, w.DecisionID, `{"budget":{"max_messages":8}}`)
	if err != nil || len(f.Messages) < 5 || !strings.Contains(string(f.Raw), "answer 11") || strings.Contains(string(f.Raw), "another way") {
		t.Errorf("%v %s", err, f.Raw)
	}
	if f, err = fork(k, w.DecisionID, `{}`); err != nil || fmt.Sprintf("%s", f.Messages) != fmt.Sprintf("%s", w.Messages) {
		t.Errorf("%v %s", err, f.Raw)
	}
}
