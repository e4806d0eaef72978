package window_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// What must stay is there even where it lies beyond the messages that a window considers.
func TestMandatoryBeyondTheHorizon(t *testing.T) {
	k := enginetest.New(t)
	k.Post("tools", enginetest.User("the question"))
	for i := range 150 {
		k.Post("tools", enginetest.Call(fmt.Sprint("c", i), "search"), enginetest.Result(fmt.Sprint("c", i), "found"))
	}
	w := k.Ask(`{"session_id":"tools","explain":true}`)
	if string(w.Messages[0]) != enginetest.User("the question") && !strings.Contains(string(w.Raw), `"content":"the question"`) {
		t.Errorf("the question is missing: %s", w.Messages[0])
	}
	if n := len(w.Report); n != 239 || w.Report[0].ReasonCode != "mandatory" || w.Report[n-1].Count != 64 {
		t.Errorf("%d rows, first %+v, last %+v", n, w.Report[0], w.Report[n-1])
	}
	validate(t, "openai.chat", w)
	k.Replay(w.DecisionID)

	calls, results := []string{}, []string{}
	for i := range 300 {
		calls = append(calls, fmt.Sprintf(`{"id":"p%d","type":"function","function":{"name":"f","arguments":"{}"}}`, i))
		results = append(results, enginetest.Result(fmt.Sprint("p", i), "ok"))
	}
	k.Post("wide", enginetest.User("go"), `{"role":"assistant","content":null,"tool_calls":[`+strings.Join(calls, ",")+`]}`)
	k.Post("wide", results...)
	_, err := k.TryAsk(`{"session_id":"wide"}`)
	if e := enginetest.WantKind(t, err, fault.Invalid); e.Code != "budget_too_small" || e.Needed != 302 {
		t.Errorf("%+v", e)
	}
	w = k.Ask(`{"session_id":"wide","explain":true,"budget":{"max_messages":302}}`)
	if len(w.Messages) != 302 {
		t.Errorf("%d messages of the newest atom and its question", len(w.Messages))
	}
}

// A pending result to a call that lies far back is no error: the report says where it went.
func TestPendingResultBeyondTheHorizon(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("delegate"), enginetest.Call("far", "delegate"))
	for i := range 300 {
		k.Post("s", enginetest.Assistant(fmt.Sprint("step ", i)))
	}
	w := k.Ask(`{"session_id":"s","explain":true,"pending":[{"role":"tool","tool_call_id":"far","content":"done"},{"role":"user","content":"and?"}]}`)
	for _, row := range w.Report {
		if row.MessageID == "pending:0" && (row.Action != "drop" || row.ReasonCode != "beyond_horizon") {
			t.Errorf("%+v", row)
		}
	}
	validate(t, "openai.chat", w)
	k.Replay(w.DecisionID)
	k.Post("new", enginetest.User("hello"))
	_, err := k.TryAsk(`{"session_id":"new","pending":[{"role":"tool","tool_call_id":"never","content":"?"}]}`)
	if e := enginetest.WantKind(t, err, fault.Invalid); len(e.Fields) != 1 || *e.Fields[0].Index != 0 {
		t.Errorf("%+v", e)
	}
}

// Earlier questions are counted piece by piece, and count what the whole counts.
func TestEarlierQuestionsAreCountedExactly(t *testing.T) {
	counter, _ := enginetest.Parts()
	k := enginetest.New(t)
	texts := []string{"", " ", "hello", " leading", "123", "): x", "日本語", "👩‍👧 go", "\n\nnew", "it's", "a(b)c", "'s", ")("}
	want := map[int]int{}
	for turn := 1; turn <= 60; turn++ {
		text := texts[turn%len(texts)]
		k.Post("s", enginetest.User(text))
		q := (&chat.Message{}).Compressed(uint32(turn), text)
		want[turn] = tokens.Plain(q.Role, q.Text, func(s string) int { return counter.Count("o200k_base", s) })
	}
	k.Post("s", enginetest.User("last"))
	w := k.Ask(`{"session_id":"s","explain":true,"budget":{"max_messages":0,"max_tokens":0},"pipeline":[{"policy":"depth-compress","config":{"depth":1}}]}`)
	for _, row := range w.Report[:60] {
		if row.Action != "compress" || row.After != want[row.Turn] {
			t.Errorf("turn %d (%q): %s of %d tokens, want %d", row.Turn, texts[row.Turn%len(texts)], row.Action, row.After, want[row.Turn])
		}
	}
}

// A key of a deleted tenant is nothing in the next tenant of that name, not even in a request that was under way.
func TestTenantsOfOneNameAreTwo(t *testing.T) {
	k := enginetest.New(t)
	made, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	late, err := k.Tenants.Authenticate(t.Context(), made.AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.DeleteTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	try := func(when string) {
		t.Helper()
		if _, err := k.Tenants.CreateKey(t.Context(), late, ident.Once{}, tenant.KeySpec{Name: "x", Role: "tenant_admin"}); err == nil {
			t.Errorf("%s: a key was made", when)
		}
		if _, _, err := k.Projects.Put(t.Context(), late, "x", project.Spec{}); err == nil {
			t.Errorf("%s: a project was made", when)
		}
		if _, err := k.Sessions.AppendTurn(t.Context(), late, ident.Once{}, ident.DefaultProject, session.TurnRequest{Messages: enginetest.Raw(enginetest.User("x"))}); err == nil {
			t.Errorf("%s: a turn was stored", when)
		}
	}
	try("deleted")
	k.Drain()
	try("swept")
	if _, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: "acme"}); err != nil {
		t.Fatal(err)
	}
	try("made again")
}
