package foreign

import (
	"fmt"
	"strings"
	"testing"
)

// dialogue returns the messages of all conversations, one line each, with their turns.
func dialogue(sink *memorySink) string {
	var out []string
	for _, c := range sink.conversations {
		out = append(out, "= "+c.ID)
		for i, turn := range c.Turns {
			for _, m := range turn.Messages {
				s := show(m)
				line := fmt.Sprintf("%d %s %s", i+1, s.Role, s.Text)
				for _, call := range s.Calls {
					line += " " + call.Name + "(" + call.ID + ")"
				}
				for _, r := range s.Results {
					line += " " + r.ID + ": " + r.Text
				}
				out = append(out, strings.TrimSpace(line))
			}
		}
	}
	for _, m := range sink.memories {
		out = append(out, fmt.Sprint("+ ", m.Namespace, " ", m.Key, ": ", m.Content))
	}
	return strings.Join(out, "\n")
}

// TestFormats reads small files of formats and traps that no sample has.
func TestFormats(t *testing.T) {
	claude := func(kind, id, parent, more string) string {
		return fmt.Sprintf(`{"type":%q,"uuid":%q,"parentUuid":%q,"sessionId":"s","isSidechain":false,"timestamp":"2026-01-01T00:00:00Z",%s}`,
			kind, id, parent, more) + "\n"
	}
	said := func(id, text string) string {
		return fmt.Sprintf(`"message":{"role":"assistant","id":%q,"content":[{"type":"text","text":%q}]}`, id, text)
	}
	asked := func(text string) string { return fmt.Sprintf(`"message":{"role":"user","content":%q}`, text) }
	for _, c := range []struct{ name, text, want, left string }{
		{"LangChain", `[{"type":"system","data":{"content":"Be brief."}},{"type":"human","data":{"content":"Tide?"}},
{"type":"ai","data":{"content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"tide","input":{}}],"tool_calls":[{"name":"tide","args":{"at":1},"id":"c1"}]}},
{"type":"tool","data":{"content":"120","tool_call_id":"c1","status":"success"}},{"type":"ai","data":{"content":"120 cm."}}]`,
			"1 user Tide?\n1 assistant I look. tide(c1)\n1 tool  c1: 120\n1 assistant 120 cm.", "map[system_prompt:1]"},
		{"LangChain dumps", `[{"lc":1,"type":"constructor","id":["langchain","schema","messages","HumanMessage"],"kwargs":{"content":"Hi","type":"human"}},
{"lc":1,"type":"constructor","id":["langchain","schema","messages","AIMessage"],"kwargs":{"content":"Hello","type":"ai"}}]`,
			"1 user Hi\n1 assistant Hello", "map[]"},
		{"mem0", `{"results":[{"id":"m1","memory":"Likes tea","user_id":"ines","created_at":"2026-01-01T00:00:00Z","metadata":{"kind":"food"}}]}`,
			"+ [import mem0 ines] m1: Likes tea", "map[]"},
		{"Letta", `{"agents":[{"id":"agent-0","name":"Ada","block_ids":["b1"],"messages":[{"role":"system","content":[{"type":"text","text":"You are Ada."}]},
{"role":"user","content":[{"type":"text","text":"{\"type\":\"user_message\",\"message\":\"Hello\"}"}]},
{"role":"user","content":[{"type":"text","text":"{\"type\":\"heartbeat\"}"}]},
{"role":"assistant","content":[],"tool_calls":[{"id":"c1","type":"function","function":{"name":"send_message","arguments":"{\"message\":\"Hi there\"}"}}]},
{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"OK"}]}]}],"blocks":[{"id":"b1","label":"human","value":"Name: Ines"}],"tools":[],"groups":[]}`,
			"= letta-Ada-agent-0\n1 user Hello\n1 assistant Hi there\n+ [import letta Ada] human: Name: Ines", "map[harness_prompt:1 system_prompt:1 telemetry:1]"},
		{"Responses, newest first", `{"object":"list","data":[{"id":"m2","type":"message","role":"assistant","content":[{"type":"output_text","text":"Calm."}]},
{"id":"o1","type":"function_call_output","call_id":"c1","output":"0"},{"id":"f1","type":"function_call","call_id":"c1","name":"wind","arguments":"{}"},
{"id":"m1","type":"message","role":"user","content":[{"type":"input_text","text":"Wind?"}]}]}`,
			"1 user Wind?\n1 assistant  wind(c1)\n1 tool  c1: 0\n1 assistant Calm.", "map[]"},
		{"a cycle of Claude Code", claude("user", "a", "b", asked("One?")) + claude("assistant", "b", "a", said("m1", "Yes.")) +
			claude("user", "c", "b", asked("Two?")) + claude("assistant", "d", "c", said("m2", "No.")),
			"= claude-code-s\n1 user One?\n1 assistant Yes.\n2 user Two?\n2 assistant No.", "map[]"},
		{"repeated message ids", claude("user", "a", "", asked("One?")) + claude("assistant", "b", "a", said("m", "Yes.")) +
			claude("user", "c", "b", asked("Two?")) + claude("assistant", "d", "c", said("m", "No.")),
			"= claude-code-s\n1 user One?\n1 assistant Yes.\n2 user Two?\n2 assistant No.", "map[]"},
		{"half a character", `{"messages":[{"role":"user","content":"a \ud83c b \ud83d\ude00"},{"role":"assistant","content":"Yes."}]}`,
			"1 user a \uFFFD b 😀\n1 assistant Yes.", "map[]"},
		{"a batch", `{"custom_id":"r1","body":{"messages":[{"role":"user","content":"Name a fish."}]}}
{"custom_id":"r1","response":{"body":{"choices":[{"message":{"role":"assistant","content":"Cod."}}]}}}`,
			"= openai-chat-r1\n1 user Name a fish.\n1 assistant Cod.", "map[]"},
		{"old Codex", `{"id":"u1","timestamp":"2025-07-01T10:00:00Z","instructions":null}
{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}
{"record_type":"state"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"Go on."}]}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}`,
			"= codex-u1\n1 user Go on.\n1 assistant Done.", "map[harness_prompt:1 telemetry:2]"},
	} {
		sink, report := read(t, file("f", []byte(c.text)))
		got := dialogue(sink)
		if !strings.HasPrefix(c.want, "=") { // the id is made from the content
			if _, rest, ok := strings.Cut(got, "\n"); ok && strings.HasPrefix(got, "=") {
				got = rest
			}
		}
		if left := fmt.Sprint(report.Total.LeftOut); got != c.want || left != c.left {
			t.Errorf("%s: got\n%s\n%s, want\n%s\n%s\n%+v", c.name, got, left, c.want, c.left, report.Files)
		}
	}
}
