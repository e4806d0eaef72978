package window_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

var everyFormat = []string{"openai.chat", "anthropic.messages", "openai.responses", "text"}

// What a policy redacts reaches no format, neither in a text, nor in a call, nor where a result shows its call; what is
// stored stays, and the window is made again byte for byte.
func TestRedactedArguments(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("redact", enginetest.Example(t, "redact"))
	k.SetPipeline(`[{"policy":"redact"}]`)
	k.Post("s", enginetest.User("My key is sk-12ab, and my name is Ada."),
		`{"role":"assistant","content":"I use sk-12ab.","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"login","arguments":"{\"key\":\"sk-12ab\",\"as\":\"Ada\"}"}},
			{"id":"c2","type":"function","function":{"name":"time","arguments":"{\"zone\":\"UTC\"}"}},
			{"id":"c3","type":"function","function":{"name":"check","arguments":"{\"keys\":[\"sk-9\",\"sk-12ab\"]}"}}]}`,
		`{"role":"tool","tool_call_id":"c1","content":"welcome"}`,
		`{"role":"tool","tool_call_id":"c2","content":"noon"}`,
		`{"role":"tool","tool_call_id":"c3","content":"sk-9 is old"}`)
	for _, format := range everyFormat {
		for _, results := range []string{"messages", "markdown"} {
			w := k.Ask(`{"session_id":"s","format":%q,"tool_results":%q,"explain":true}`, format, results)
			shown := w.Text + string(bytes.Join(bytesOf(w.Messages), []byte("\n")))
			if strings.Contains(shown, "sk-") || !strings.Contains(shown, "[redacted]") ||
				!strings.Contains(shown, "noon") {
				t.Errorf("%s, %s: %s", format, results, shown)
			}
			if called := strings.Contains(shown, "UTC"); called != (format != "text" || results == "markdown") {
				t.Errorf("%s, %s: what was not redacted is shown otherwise: %s", format, results, shown)
			}
			if w.Pipeline[0].Outcome != "ok" || w.Report[0].Action != "replace" || w.Report[1].ReasonCode != "secret" {
				t.Errorf("%+v %+v", w.Pipeline, w.Report)
			}
			k.Replay(w.DecisionID)
			if format == "text" && results == "markdown" {
				continue // a result whose text was replaced names its tool once more
			}
			// As if it had been said that way: the tokens are those of what is shown.
			again := enginetest.New(t)
			again.Post("s", enginetest.User("My key is [redacted], and my name is Ada."),
				`{"role":"assistant","content":"I use [redacted].","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"login","arguments":"{\"key\":\"[redacted]\",\"as\":\"Ada\"}"}},
			{"id":"c2","type":"function","function":{"name":"time","arguments":"{\"zone\":\"UTC\"}"}},
			{"id":"c3","type":"function","function":{"name":"check","arguments":"{\"keys\":[\"[redacted]\",\"[redacted]\"]}"}}]}`,
				`{"role":"tool","tool_call_id":"c1","content":"welcome"}`,
				`{"role":"tool","tool_call_id":"c2","content":"noon"}`,
				`{"role":"tool","tool_call_id":"c3","content":"[redacted] is old"}`)
			said := again.Ask(`{"session_id":"s","format":%q,"tool_results":%q,"pipeline":[]}`, format, results)
			if w.Usage["tokens"] != said.Usage["tokens"] || w.Text != said.Text ||
				compacted(t, w.Messages) != compacted(t, said.Messages) {
				t.Errorf("%s, %s: %d tokens, %d where it was said so\n%s\n%s", format, results, w.Usage["tokens"],
					said.Usage["tokens"], shown, said.Messages)
			}
		}
	}
}

// A result that shows the arguments of its call shows the new ones, also where nothing else of it changes.
func TestResultsShowReplacedArguments(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("p", wasmtest.Policy(`{"abi":"1.1","hooks":["assemble"]}`, wasmtest.Answer(5, 2, 1, 0, `{"a":"new"}`)))
	k.SetPipeline(`[{"policy":"p"}]`)
	k.Post("s", enginetest.User("go"),
		`{"role":"assistant","content":null,"tool_calls":[
			{"id":"c1","type":"function","function":{"name":"do","arguments":"{\"a\":\"old\"}"}},
			{"id":"c2","type":"function","function":{"name":"do","arguments":"{\"b\":2}"}}]}`,
		`{"role":"tool","tool_call_id":"c2","content":"two"}`, `{"role":"tool","tool_call_id":"c1","content":"one"}`)
	for _, format := range everyFormat {
		w := k.Ask(`{"session_id":"s","format":%q,"tool_results":"markdown"}`, format)
		shown := w.Text + fmt.Sprintf("%s", w.Messages)
		if strings.Contains(shown, "old") || !strings.Contains(shown, "new") || w.Pipeline[0].Outcome != "ok" {
			t.Errorf("%s: %+v %s", format, w.Pipeline, shown)
		}
		if n := strings.Count(shown, "new"); format != "text" && n != 2 || format == "text" && n != 1 {
			t.Errorf("%s: the new arguments stand there %d times: %s", format, n, shown)
		}
		k.Replay(w.DecisionID)
	}
}

func compacted(t *testing.T, raw []json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	for _, r := range raw {
		if err := json.Compact(&b, r); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func bytesOf(raw []json.RawMessage) (out [][]byte) {
	for _, r := range raw {
		out = append(out, r)
	}
	return out
}

// Old media go and their words stay; where there were none, a placeholder stands; the newest turns keep theirs.
func TestStrippedMedia(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("strip", enginetest.Example(t, "strip-old-media"))
	image := `{"type":"image_url","image_url":{"url":"https://example.com/%s.png"}}`
	k.Post("s", fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"See this."},`+image+`]}`, "one"),
		enginetest.Assistant("A cat."))
	k.Post("s", fmt.Sprintf(`{"role":"user","content":[`+image+`]}`, "two"), enginetest.Assistant("A dog."))
	k.Post("s", fmt.Sprintf(`{"role":"user","content":[{"type":"file","file":{"file_id":"f"}},`+image+`]}`, "three"))
	for _, format := range everyFormat {
		bare := k.Ask(`{"session_id":"s","format":%q,"pipeline":[],"budget":{"max_tokens":0}}`, format)
		w := k.Ask(`{"session_id":"s","format":%q,"budget":{"max_tokens":0},"pipeline":[{"policy":"strip","config":{"turns":1}}],"explain":true}`,
			format)
		shown := w.Text + fmt.Sprintf("%s", w.Messages)
		if strings.Contains(shown, "one.png") || strings.Contains(shown, "two.png") || !strings.Contains(shown, "See this.") ||
			!strings.Contains(shown, "…") {
			t.Errorf("%s: %s", format, shown)
		}
		if format != "text" && (!strings.Contains(shown, "three.png") || w.Usage["tokens"] >= bare.Usage["tokens"]) {
			t.Errorf("%s: %d tokens, %d before: %s", format, w.Usage["tokens"], bare.Usage["tokens"], shown)
		}
		if w.Report[0].Action != "strip" || w.Report[2].ReasonCode != "old_media" || w.Report[4].Action != "keep" ||
			w.Report[0].Before <= w.Report[0].After && format != "text" {
			t.Errorf("%s: %+v", format, w.Report)
		}
		k.Replay(w.DecisionID)
	}
}

// What is pinned is flagged for the policies behind, is reported as kept by the one that pinned it, and is replayed.
func TestPinnedMessages(t *testing.T) {
	k := enginetest.New(t)
	k.Upload("pin", enginetest.Example(t, "pin-relevant"))
	k.Post("s", enginetest.User("My seat is 17A."), enginetest.Assistant("Noted."))
	for i := range 12 {
		k.Post("s", enginetest.User(fmt.Sprint("Tell me about topic ", i, ".")), enginetest.Assistant("It is a topic."))
	}
	w := k.Ask(`{"session_id":"s","pipeline":[{"policy":"pin","config":{"count":1}},{"policy":"pin"}],"explain":true,
		"pending":[{"role":"user","content":"Which seat do I have?"}]}`)
	if r := w.Report[0]; r.Action != "keep" || r.Policy != "pin" || r.ReasonCode != "relevant" {
		t.Errorf("%+v", r)
	}
	// Whatever the built-ins leave out, it is not what is pinned, until the budget holds nothing else.
	for _, budget := range []int{60, 30, 12, 8, 4, 3, 1} {
		trimmed := k.Ask(`{"session_id":"s","pipeline":[{"policy":"pin","config":{"count":1}},{"policy":"tool-result-clear"},
			{"policy":"summarise","config":{"enabled":true,"threshold":2}},{"policy":"depth-compress","config":{"depth":2}},
			{"policy":"tool-pair-trim"}],"budget":{"max_messages":%d},"explain":true,
			"pending":[{"role":"user","content":"Which seat do I have?"}]}`, budget)
		r, shown := trimmed.Report[0], fmt.Sprintf("%s", trimmed.Messages)
		for _, s := range trimmed.Pipeline {
			if s.Outcome != "ok" {
				t.Fatalf("%+v", s)
			}
		}
		switch {
		case budget > 1 && (r.Action != "keep" || r.Policy != "pin" || !strings.Contains(shown, "17A")):
			t.Errorf("at %d messages: %+v in %s", budget, r, shown)
		case budget == 1 && (r.Action != "drop" || r.ReasonCode != "pinned_no_room"):
			t.Errorf("at 1 message: %+v", r)
		}
		k.Replay(trimmed.DecisionID)
	}
	if w.Pipeline[0].Fuel == 0 || w.Pipeline[1].Outcome != "ok" {
		t.Errorf("%+v", w.Pipeline)
	}
	k.Replay(w.DecisionID)
}
