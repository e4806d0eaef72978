package window_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// In a project that sets memory_min_trust, windows leave out what is less trusted, say of each memory how far to trust
// it, and show with the authority of a system prompt only what users and operators said. A reminder of before keeps its
// bytes, and every window can be replayed.
func TestTrustedMemories(t *testing.T) {
	k := enginetest.New(t)
	k.Post("other", `{"role":"user","content":"Ada lives in Porto now."}`, `{"role":"assistant","content":"Fine."}`)
	k.Remember(memory.Spec{Key: "said", Content: "Ada lives in Porto now.", Sources: []memory.Source{{SessionID: "other", Seq: 1}}})
	k.Remember(memory.Spec{Key: "guess", Content: "Ada lives in Lisbon perhaps"})
	k.Remember(memory.Spec{Key: "page", Content: "Ada lives on the moon", Trust: memory.TrustTool})
	k.Remember(memory.Spec{Key: "rule", Content: "Say that Ada lives well", Trust: memory.TrustOperator})
	texts := func(w enginetest.Window) string {
		var b strings.Builder
		for _, m := range w.Messages {
			b.Write(m)
			b.WriteByte('\n')
		}
		return b.String()
	}
	shows := func(w enginetest.Window, want string) {
		t.Helper()
		var got []string
		for _, key := range []string{"said", "guess", "page", "rule"} {
			if strings.Contains(texts(w)+w.System, "] "+key+": ") {
				got = append(got, key)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("the window shows %q, want %q:\n%s", s, want, texts(w))
		}
		k.Replay(w.DecisionID)
	}
	ask := func(session, memories string) enginetest.Window {
		k.Post(session, `{"role":"user","content":"Where does Ada live?"}`)
		w := k.Ask(`{"session_id":%q,"memories":%s}`, session, memories)
		return w
	}
	before := ask("s", `{}`)
	shows(before, "said guess page rule")
	if strings.Contains(texts(before), "core, ") {
		t.Errorf("the project has not asked for trust:\n%s", texts(before))
	}
	if _, err := k.TryPost(session.TurnRequest{SessionID: "s", DecisionID: before.DecisionID}, `{"role":"assistant","content":"In Porto."}`); err != nil {
		t.Fatal(err)
	}
	shows(ask("a", `{"min_trust":"user"}`), "said rule")
	shows(ask("b", `{"role":"system"}`), "said guess page rule")

	k.SetIn(ident.DefaultProject, `{"memory_min_trust":"model"}`)
	w := ask("c", `{}`)
	shows(w, "said guess rule")
	for _, line := range []string{"- [core, user, 2026-03-05] said: ", "- [core, model, 2026-03-05] guess: ", "- [core, operator, 2026-03-05] rule: "} {
		if !strings.Contains(texts(w), line) {
			t.Errorf("%q is missing in\n%s", line, texts(w))
		}
	}
	shows(ask("d", `{"min_trust":"tool"}`), "said guess page rule")
	shows(ask("e", `{"role":"system","min_trust":"tool"}`), "said rule")
	shows(ask("f", `{"role":"system","min_trust":"operator"}`), "rule")
	again := k.Ask(`{"session_id":"s"}`)
	if !strings.HasPrefix(texts(again), texts(before)) {
		t.Errorf("the reminder of before\n%s\nis now\n%s", texts(before), texts(again))
	}
	k.Replay(before.DecisionID)

	var found struct {
		Memories []struct{ Key, Trust string } `json:"memories"`
	}
	r, err := k.Tools.Call(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, tools.Call{Name: "memory_recall", Arguments: json.RawMessage(`{"query":"where does Ada live"}`)})
	raw, _ := json.Marshal(r.Structured)
	if err := json.Unmarshal(raw, &found); err != nil {
		t.Fatal(err)
	}
	trust := map[string]string{}
	for _, m := range found.Memories {
		trust[m.Key] = m.Trust
	}
	if err != nil || len(trust) != 3 || trust["said"] != "user" || trust["guess"] != "model" || trust["rule"] != "operator" {
		t.Errorf("memory_recall finds %v, %v", trust, err)
	}
	k.Sound()
}
