package window_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
)

// delegated posts messages as one turn of a delegation, user and assistant in turns.
func delegated(k *enginetest.Kit, delegation string, texts ...string) {
	var messages []string
	for i, text := range texts {
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":%q,"agent":"scout","delegation_id":%q}`,
			[]string{"user", "assistant"}[i%2], text, delegation))
	}
	k.Post("s", messages...)
}

func call(id, arguments string) string {
	return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"delegate","arguments":%q}}]}`,
		id, arguments)
}

func answered(id, text string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, text)
}

// A main agent sees of a delegation its own call and result where there are such, and the labelled result otherwise,
// also while the call waits for its result.
func TestMainSeesResultsOfDelegations(t *testing.T) {
	const labelled = `[delegated to scout: find it]\n[result from scout] it is in the \"attic\"`
	for name, test := range map[string]struct {
		before  func(*enginetest.Kit) // the delegation's turn
		pending []string
		label   bool
	}{
		"none":         {func(k *enginetest.Kit) { k.Post("s", enginetest.User("q")) }, nil, true},
		"a call waits": {func(k *enginetest.Kit) { k.Post("s", enginetest.User("q"), call("c", "{}")) }, nil, false},
		"the user went on": {func(k *enginetest.Kit) {
			k.Post("s", enginetest.User("q"), call("c", "{}"))
			k.Post("s", enginetest.User("never mind"))
		}, nil, true},
		"the call is answered": {func(k *enginetest.Kit) { k.Post("s", enginetest.User("q"), call("c", "{}")) },
			[]string{answered("c", "done")}, false},
		"the call gives the task": {nil, []string{enginetest.User("q"), call("c", `{"task":"find it"}`), answered("c", "done")}, false},
		"the call has its id":     {nil, []string{enginetest.User("q"), call("d", "{}"), answered("d", "done")}, false},
		"the result quotes it":    {nil, []string{enginetest.User("q"), call("c", "{}"), answered("c", `{"answer":"it is in the \"attic\""}`)}, false},
		"another call":            {nil, []string{enginetest.User("q"), call("c", "{}"), answered("c", "rain")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := enginetest.New(t)
			if test.before != nil {
				test.before(k)
			}
			delegated(k, "d", "find it", "let me see", "go on", `it is in the "attic"`)
			w := k.Ask(`{"session_id":"s","explain":true,"pending":[%s]}`, strings.Join(test.pending, ","))
			shown := shownOf(w)
			if strings.Contains(shown, labelled) != test.label || strings.Count(shown, "find it") > 1 ||
				strings.Contains(shown, "let me see") || strings.Contains(shown, "go on") {
				t.Errorf("the main agent sees %s", shown)
			}
			for _, r := range w.Report {
				if r.Action != "keep" && r.Action != "inject" && r.ReasonCode != "delegated" {
					t.Errorf("report %+v", r)
				}
			}
			k.Replay(w.DecisionID)
			for _, format := range []string{"anthropic.messages", "openai.responses", "text"} {
				k.Replay(k.Ask(`{"session_id":"s","format":%q}`, format).DecisionID)
			}
		})
	}
}

// A short answer is not taken for reported because its words are somewhere in a result.
func TestShortResultsOfDelegations(t *testing.T) {
	for _, test := range []struct {
		answer, result string
		reported       bool
	}{
		{"Done.", "Done. 14 files changed.", false},
		{`A & B`, "A plan was made", false},
		{"Done.", "Done.", true},
		{"42", `{"sum":"42"}`, true},
		{"42", `{"sum":"1420"}`, false},
	} {
		k := enginetest.New(t)
		delegated(k, "d", "add them up", test.answer)
		k.Post("s", enginetest.User("q"), call("c", "{}"), answered("c", test.result))
		shown := shownOf(k.Ask(`{"session_id":"s"}`))
		if strings.Contains(shown, "[result from scout]") == test.reported {
			t.Errorf("answer %q, result %q: the main agent sees %s", test.answer, test.result, shown)
		}
	}
}

// A sub-agent sees its task, also behind the main agent's newer question, and of the top level calls with results.
func TestDelegationSeesResultsOfTheTopLevel(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("q1"), call("c1", "{}"), answered("c1", "old news"), enginetest.Assistant("a1"))
	k.Post("s", enginetest.User("q2"), call("c2", "{}"))
	delegated(k, "other", "hide", "seek")
	delegated(k, "d", "find it")
	k.Post("s", enginetest.User("q3"))
	for _, test := range []struct{ viewer, want string }{
		{`"delegation_id":"d"`, "old news,find it"},
		{`"delegation_id":"d","result_tokens":5`, "find it"},
		{`"delegation_id":"d","result_tokens":5000`, "old news,find it"},
		{`"delegation_id":"d","alone":true`, "find it"},
		{`"delegation_id":"d","whole":true`, "q1,old news,a1,q2,find it,q3"},
		{`"delegation_id":"new"`, "old news"},
	} {
		w := k.Ask(`{"session_id":"s","viewer":{%s}}`, test.viewer)
		var saw []string
		for _, text := range strings.Split("q1,old news,a1,q2,hide,seek,find it,q3", ",") {
			if strings.Contains(shownOf(w), `"`+text+`"`) {
				saw = append(saw, text)
			}
		}
		if got := strings.Join(saw, ","); got != test.want {
			t.Errorf("%s sees %s, want %s: %s", test.viewer, got, test.want, shownOf(w))
		}
		k.Replay(w.DecisionID)
	}
	for _, viewer := range []string{`"result_tokens":5`, `"delegation_id":"d","result_tokens":-1`,
		`"delegation_id":"d","alone":true,"result_tokens":5`, `"alone":true,"whole":true`} {
		if _, err := k.TryAsk(`{"session_id":"s","viewer":{` + viewer + `}}`); err == nil {
			t.Errorf("%s is accepted", viewer)
		}
	}
}
