package window_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// said posts a turn to session s that was made from a decision.
func said(t *testing.T, k *enginetest.Kit, decision string, messages ...string) session.TurnResponse {
	t.Helper()
	req := session.TurnRequest{SessionID: "s", DecisionID: decision}
	for _, m := range messages {
		req.Messages = append(req.Messages, json.RawMessage(m))
	}
	out, err := k.Sessions.AppendTurn(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, req)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// roles are the messages of a window in short: the role's first letter, and an M where it holds memories.
func roles(w enginetest.Window) string {
	out := ""
	for _, m := range w.Messages {
		var o struct{ Role string }
		if json.Unmarshal(m, &o) != nil {
			return "?"
		}
		out += o.Role[:1]
		if strings.Contains(string(m), "were recalled, not said") {
			out += "M"
		}
	}
	return out
}

// TestRemindersStay follows memories through a session: within a tool loop and in later turns they stand before the
// message that they were recalled for, byte for byte, until they are forgotten or the message is compressed.
func TestRemindersStay(t *testing.T) {
	k := enginetest.New(t)
	k.Keep("home", "Ada lives in Lisbon with two cats")
	const question = `{"role":"user","content":"where does Ada live?"}`
	const call = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	const result = `{"role":"tool","tool_call_id":"c1","content":"done"}`
	ask := func(pending ...string) enginetest.Window {
		return k.Ask(`{"session_id":"s","explain":true,"memories":{},"pending":[%s]}`, strings.Join(pending, ","))
	}
	first := ask(question)
	if roles(first) != "uMu" {
		t.Fatalf("%s", first.Messages)
	}
	k.Keep("new", "Ada lives near the river") // which a new recall would find
	loop := ask(question, call, result)
	if roles(loop) != "uMuat" || string(loop.Messages[0]) != string(first.Messages[0]) {
		t.Fatalf("%s", loop.Messages)
	}
	said(t, k, loop.DecisionID, question, call, result, `{"role":"assistant","content":"In Lisbon."}`)
	k.Keep("home", "Ada lives in Porto") // the version that was shown stays
	second := ask(`{"role":"user","content":"and who likes rivers?"}`)
	if roles(second) != "uMuatauMu" || string(second.Messages[0]) != string(first.Messages[0]) {
		t.Fatalf("%s %s", roles(second), second.Messages)
	}
	rows := map[string]string{}
	for _, r := range second.Report {
		rows[r.MessageID] = r.ReasonCode
	}
	if rows["memories"] != "recalled" || len(rows) != 7 {
		t.Errorf("%v", rows)
	}
	for _, format := range []string{"anthropic.messages", "openai.responses", "text"} {
		w := k.Ask(`{"session_id":"s","format":%q}`, format)
		if !strings.Contains(string(w.Raw), "two cats") {
			t.Errorf("%s: %s", format, w.Raw)
		}
		k.Replay(w.DecisionID)
	}
	// Who asks for no memories goes on with the prompt as it began.
	without := k.Ask(`{"session_id":"s"}`)
	if roles(without) != "uMuata" || without.Usage["tokens"] == without.Usage["history_tokens"] {
		t.Errorf("%s", without.Messages)
	}
	compressed := k.Ask(`{"session_id":"s","pending":[{"role":"user","content":"next"}],"pipeline":[{"policy":"depth-compress","config":{"depth":1}}]}`)
	if roles(compressed) != "uu" {
		t.Errorf("%s", compressed.Messages)
	}
	if _, err := k.Memories.Forget(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "home"); err != nil {
		t.Fatal(err)
	}
	forgotten := k.Ask(`{"session_id":"s"}`)
	if roles(forgotten) != "uata" || strings.Contains(string(forgotten.Raw), "Lisbon with") {
		t.Errorf("%s", forgotten.Messages)
	}
	k.Replay(forgotten.DecisionID)
	for _, w := range []enginetest.Window{first, loop, second, without} {
		_, err := k.Windows.Replay(k.Context(), k.Admin, ident.DefaultProject, w.DecisionID, nil)
		if gone := (*fault.Error)(nil); !errors.As(err, &gone) || gone.Code != "memory_purged" {
			t.Errorf("replaying with a forgotten memory: %v", err)
		}
	}
}

// TestRemindersOfStoredMessages holds the same for a question that was stored before its window was asked for, and
// that copies of a session keep reminders.
func TestRemindersOfStoredMessages(t *testing.T) {
	k := enginetest.New(t)
	k.Keep("home", "Ada lives in Lisbon with two cats")
	said(t, k, "", `{"role":"user","content":"hello"}`, `{"role":"assistant","content":"hi"}`)
	said(t, k, "", `{"role":"user","content":"where does Ada live?"}`)
	first := k.Ask(`{"session_id":"s","memories":{}}`)
	if roles(first) != "uauMu" {
		t.Fatalf("%s", first.Messages)
	}
	said(t, k, first.DecisionID, `{"role":"assistant","content":"In Lisbon."}`)
	said(t, k, "", `{"role":"user","content":"thanks"}`)
	again := k.Ask(`{"session_id":"s"}`)
	if roles(again) != "uauMuau" || string(again.Messages[2]) != string(first.Messages[2]) {
		t.Fatalf("%s", again.Messages)
	}
	for range 70 { // so many turns that the view is read anew
		said(t, k, "", `{"role":"user","content":"x"}`)
	}
	k.Replay(again.DecisionID)
	file, err := k.Sessions.Export(k.Context(), k.Admin, ident.DefaultProject, "s")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := session.File{}
	if err := json.Unmarshal(raw, &copied); err != nil {
		t.Fatal(err)
	}
	copied.Session.ID = "copy"
	if _, err := k.Sessions.Import(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, copied); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Sessions.Fork(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "s",
		session.ForkRequest{As: "fork", AtTurn: new(uint32(4))}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"copy", "fork"} {
		w := k.Ask(`{"session_id":%q,"budget":{"max_messages":0,"max_tokens":0},"pipeline":[]}`, s)
		if !strings.HasPrefix(roles(w), "uauMuau") {
			t.Errorf("%s: %s", s, roles(w))
		}
		k.Replay(w.DecisionID)
	}
	if past := k.Ask(`{"session_id":"s","as_of":{"turn":2}}`); roles(past) != "uau" {
		t.Errorf("as of turn 2: %s", past.Messages)
	}
}

// TestRemindersGiveWay holds that a stored reminder never makes a question too big for a budget that holds the
// question, and that a question whose memories are all forgotten is given others.
func TestRemindersGiveWay(t *testing.T) {
	k := enginetest.New(t)
	k.Keep("home", "Ada lives in Lisbon "+strings.Repeat("near the old bridge ", 200))
	const question = `{"role":"user","content":"where does Ada live?"}`
	first := k.Ask(`{"session_id":"s","memories":{},"pending":[%s]}`, question)
	said(t, k, first.DecisionID, question)
	last := ""
	for _, tokens := range []int{20, 100, 500, 2000, 8000} {
		w := k.Ask(`{"session_id":"s","memories":{},"budget":{"max_tokens":%d}}`, tokens)
		if w.Usage["tokens"] > tokens+3 {
			t.Errorf("%d tokens: %v", tokens, w.Usage)
		}
		if shown := rememberedIn(t, w); (shown == "+home") != (roles(w) == "uMu") {
			t.Errorf("%d tokens: %s of %s", tokens, shown, roles(w))
		}
		last = roles(w)
		k.Replay(w.DecisionID)
	}
	if last != "uMu" {
		t.Errorf("the widest budget shows %s", last)
	}
	if _, err := k.Memories.Forget(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "home"); err != nil {
		t.Fatal(err)
	}
	k.Keep("new", "Ada lives in Porto")
	w := k.Ask(`{"session_id":"s","memories":{}}`)
	if rememberedIn(t, w) != "+new" || roles(w) != "uMu" {
		t.Errorf("%s %s", rememberedIn(t, w), w.Messages)
	}
	k.Replay(w.DecisionID)
}
