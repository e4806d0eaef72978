package lab_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// TestOtherSettings compares a replay of settings with setting them: both sides are the windows that agents get.
func TestOtherSettings(t *testing.T) {
	raw := &enginetest.Counting{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	for i := range 6 {
		talk(k, fmt.Sprint("s", i), 4+5*i)
		k.Advance(time.Minute)
	}
	k.Post("s1", enginetest.User("the last word"))
	nightly := session.Spec{ID: "nightly", Kind: session.KindBackground}
	if _, err := k.Sessions.Create(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, nightly); err != nil {
		t.Fatal(err)
	}
	replay := func(request string) (lab.SettingsReplay, error) {
		var req lab.SettingsReplayRequest
		if err := json.Unmarshal([]byte(request), &req); err != nil {
			t.Fatal(err)
		}
		return k.Trials.ReplaySettings(t.Context(), k.Admin, ident.DefaultProject, req)
	}
	raw.Reset()
	if same, err := replay(`{}`); err != nil || same.Totals.ChangedMessages != 0 || len(same.Sessions) != 6 ||
		same.Sessions[0].SessionID != "s1" || same.Sessions[1].SessionID != "s5" || raw.Commits != 0 {
		t.Errorf("nothing else: %v %+v, %d commits", err, same, raw.Commits)
	}
	windows := func() map[string]int {
		tokens := map[string]int{}
		for i := range 6 {
			id := fmt.Sprint("s", i)
			tokens[id] = k.Ask(`{"session_id":%q,"record":false}`, id).Usage["tokens"]
		}
		return tokens
	}
	was := windows()
	for _, settings := range []string{`{"history_max_tokens":600}`, `{"history_max_messages":0,"history_max_tokens":0}`,
		`{"pipeline":[{"policy":"tool-pair-trim","config":{"low_water":0.5}}],"history_max_tokens":900}`,
		`{"session_history_depth":2}`, `{"tokenizer":"cl100k_base"}`} {
		got, err := replay(`{"newest":4,"settings":` + settings + `}`)
		if err != nil || len(got.Sessions) != 4 {
			t.Fatal(settings, err, len(got.Sessions))
		}
		k.SetIn(ident.DefaultProject, settings)
		for id, is := range windows() {
			for _, s := range got.Sessions {
				if s.SessionID == id && (int(s.Tokens.Before) != was[id] || int(s.Tokens.After) != is || s.Error != "") {
					t.Errorf("%s: %s says %+v; the windows have %d and %d tokens", settings, id, s.Tokens, was[id], is)
				}
			}
		}
		back, err := replay(`{"settings":{"history_max_tokens":null,"history_max_messages":null,"pipeline":null,
			"session_history_depth":null,"tokenizer":null},"sessions":["s5"]}`)
		if err != nil || int(back.Sessions[0].Tokens.After) != was["s5"] {
			t.Errorf("%s: and back: %v %+v", settings, err, back)
		}
		k.SetIn(ident.DefaultProject, `{"history_max_tokens":null,"history_max_messages":null,"pipeline":null,
			"session_history_depth":null,"tokenizer":null}`)
	}
	for request, code := range map[string]string{`{"settings":{"depth":1}}`: "unknown_field", `{"newest":101}`: "out_of_range",
		`{"settings":{"session_history_depth":0}}`: "out_of_range", `{"settings":{"pipeline":[{"policy":"none"}]}}`: "unknown_policy",
		`{"settings":[]}`: "wrong_type"} {
		_, err := replay(request)
		enginetest.RefusedWith(t, err, fault.Invalid, code)
	}
	_, err := replay(`{"sessions":["none"]}`)
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
}
