package window_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
)

// TestTokensToKeep checks what messages would cost, against a window that keeps everything: the price of an atom is
// what that window spends on it beyond what the window in question does.
func TestTokensToKeep(t *testing.T) {
	k := enginetest.New(t)
	for i := range 12 {
		call := fmt.Sprintf("call_%d", i)
		k.Post("s", enginetest.User(fmt.Sprint("question ", i)), fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[
			{"id":%q,"type":"function","function":{"name":"look","arguments":"{}"}}]}`, call),
			fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, call, strings.Repeat("result ", 20*i+1)),
			enginetest.Assistant(fmt.Sprint("answer ", i)))
	}
	for _, rest := range []string{`"budget":{"max_messages":0,"max_tokens":0}`, `"budget":{"max_messages":12,"max_tokens":0}`,
		`"budget":{"max_messages":0,"max_tokens":900}`, `"budget":{"max_messages":30,"max_tokens":900}`,
		`"pipeline":[{"policy":"tool-result-clear","config":{"trigger":100}}],"budget":{"max_messages":0,"max_tokens":1500}`,
		`"pipeline":[{"policy":"depth-compress","config":{"depth":2}}],"budget":{"max_messages":0,"max_tokens":0}`} {
		w := k.Ask(`{"session_id":"s","explain":true,%s}`, rest)
		before, after := map[int]int{}, map[int]int{}
		for _, r := range w.Report {
			if r.Atom != nil && r.Action != "inject" {
				before[*r.Atom] += r.Before
				after[*r.Atom] += r.After
			}
		}
		for _, r := range w.Report {
			switch {
			case r.Action == "inject" || r.Count > 0:
				if r.TokensToKeep != nil {
					t.Errorf("%s: %s costs %d, and no client sent it", rest, r.MessageID, *r.TokensToKeep)
				}
			case r.TokensToKeep == nil:
				t.Errorf("%s: the cost of %s is unknown", rest, r.MessageID)
			case *r.TokensToKeep != before[*r.Atom]-after[*r.Atom]:
				t.Errorf("%s: %s costs %d, not %d", rest, r.MessageID, *r.TokensToKeep, before[*r.Atom]-after[*r.Atom])
			}
		}
		k.Replay(w.DecisionID)
	}
}
