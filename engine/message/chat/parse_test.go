package chat_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// summary writes what Parse made of each message in one line: index, role and kind, then what is not empty.
func summary(p *chat.Parsed) string {
	kinds := map[plan.Kind]string{plan.KindChat: "chat", plan.KindCall: "call", plan.KindResult: "result",
		plan.KindA2A: "a2a"}
	roles := map[plan.Role]string{plan.RoleUser: "user", plan.RoleAssistant: "assistant", plan.RoleTool: "tool"}
	s := fmt.Sprintf("%d %s %s %q", p.Index, roles[p.Role], kinds[p.Kind], p.Text)
	for _, c := range p.Calls {
		s += fmt.Sprintf(" %s=%s(%s)", c.ID, c.Name, c.Arguments)
	}
	for _, v := range []struct{ name, value string }{
		{"answers", p.CallID}, {"name", p.Name}, {"agent", p.Agent}, {"delegation", p.Delegation},
		{"reasoning", p.Reasoning},
		{"from", p.From}, {"to", p.To}, {"tags", strings.Join(p.Tags, ",")}, {"metadata", string(p.Metadata)},
	} {
		if v.value != "" {
			s += " " + v.name + ":" + v.value
		}
	}
	if p.IsError {
		s += " error"
	}
	if p.Images > 0 {
		s += fmt.Sprintf(" images:%d", p.Images)
	}
	return s
}

func TestParse(t *testing.T) {
	want := [][]string{
		{
			`1 user chat "What is the weather?" name:Ada agent:main tags:a,b`,
			`2 assistant call "" call_1=weather({"city":"Oslo"}) call:2=time(not json) reasoning:look it up`,
			`3 tool result "noon" answers:call:2`,
			`4 tool result "{\"c\":4}" answers:call_1`,
			`5 assistant chat "4 degrees."`,
		},
		{
			`0 user chat "see" images:2`,
			`1 assistant chat "a\nno\nnever"`,
			`2 assistant call "" call_1=sh(ls)`,
			`3 user chat ""`,
			`4 user chat ""`,
			`5 assistant a2a "for you" delegation:d1 from:main to:helper`,
			`6 user a2a "" from:helper to:main`,
		},
		{
			`0 assistant call "" call_1=weather()`,
			`1 tool result "" answers:call_1`,
			`2 assistant call " " call_1=weather()`,
		},
		{
			`0 user chat "Compare the two."`,
			`1 assistant call "I will." toolu_1=read({"path":"a"}) toolu_2=read(["not an object"]) reasoning:hm`,
			`2 tool result "gone" answers:toolu_2 agent:main error`,
			`2 tool result "A" answers:toolu_1 agent:main images:1`,
			`2 user chat "Hurry." agent:main`,
			`3 assistant chat "Done.\n\n"`,
		},
		{
			`0 user chat "Both." images:1`,
			`1 assistant chat ""`,
			`2 assistant call "" toolu_1=list({})`,
			`3 tool result "" answers:toolu_1`,
			`4 assistant call "" toolu_1=list({})`,
		},
		{
			`1 user chat "Look" images:1`,
			`2 assistant call "" call_1=look({"at":1}) call_2=look([1]) delegation:d1 reasoning:plan`,
			`5 tool result "one" answers:call_1`,
			`6 tool result "two" answers:call_2 images:1`,
			`7 assistant chat "Seen.\nBut no."`,
		},
		{
			`0 user chat "go"`,
			`1 assistant call "calling\ncalled" call_1=look()`,
			`4 assistant a2a "over to you" from:a to:b`,
			`5 assistant chat ""`,
		},
	}
	for i, tr := range transcripts {
		var in []json.RawMessage
		if err := json.Unmarshal([]byte(tr.posted), &in); err != nil {
			t.Fatal(err)
		}
		parsed, skipped, errs := chat.Parse(tr.format, in)
		if len(errs) > 0 {
			t.Errorf("transcript %d: %v", i, errs)
		}
		var got []string
		for j := range parsed {
			got = append(got, summary(&parsed[j]))
		}
		if !slices.Equal(got, want[i]) {
			t.Errorf("transcript %d\ngot  %s\nwant %s", i, strings.Join(got, "\n     "),
				strings.Join(want[i], "\n     "))
		}
		system := strings.Contains(tr.posted, "not stored")
		if system != slices.Equal(skipped, []chat.Skipped{{Index: 0, Code: chat.CodeSystemNotStored}}) {
			t.Errorf("transcript %d: skipped %v", i, skipped)
		}
	}
}

// A split message must still be a valid message of its format, with only the posted bytes of its own blocks.
func TestParseSplitsRaw(t *testing.T) {
	const result, text = `{"type":"tool_result", "tool_use_id":"a"}`, `{"text":"x","type":"text"}`
	msgs, _ := parseAll(chat.AnthropicMessages, `[{"role":"user","agent":"m","content":[`+text+`,`+result+`]}]`)
	if got := string(msgs[0].Raw); got != `{"role":"user","agent":"m","content":[`+result+`]}` {
		t.Errorf("result: %s", got)
	}
	if got := string(msgs[1].Raw); got != `{"role":"user","agent":"m","content":[`+text+`]}` {
		t.Errorf("text: %s", got)
	}
	const reasoning, call = `{"type":"reasoning","id":"r"}`, `{"type":"function_call","call_id":"c","name":"f"}`
	msgs, _ = parseAll(chat.OpenAIResponses, `[`+reasoning+` , `+call+`]`)
	if got := string(msgs[0].Raw); got != `[`+reasoning+`,`+call+`]` {
		t.Errorf("items: %s", got)
	}
}

// Items of one assistant must not become one message if a viewer may see only some of them.
func TestParseKeepsOwnersApart(t *testing.T) {
	call := func(id, own string) string {
		return `{"type":"function_call","call_id":"` + id + `","name":"f"` + own + `}`
	}
	msgs, ok := parseAll(chat.OpenAIResponses, `[`+call("a", `,"delegation_id":"d1"`)+`,`+
		call("b", `,"delegation_id":"d2"`)+`,`+call("c", "")+`,`+call("d", `,"agent":"x"`)+`]`)
	if !ok || len(msgs) != 4 {
		t.Fatalf("%d messages, want 4", len(msgs))
	}
	for i, want := range []string{"d1", "d2", "", ""} {
		if msgs[i].Delegation != want || len(msgs[i].Calls) != 1 {
			t.Errorf("message %d: delegation %q, calls %v", i, msgs[i].Delegation, msgs[i].Calls)
		}
	}
}

// Which Responses items are one message: adjacent calls are parallel, and a second message begins a new one.
func TestParseGroups(t *testing.T) {
	const (
		text = `{"role":"assistant","content":"a"}`
		why  = `{"type":"reasoning","id":"r"}`
		one  = `{"type":"function_call","call_id":"1","name":"f"}`
		two  = `{"type":"function_call","call_id":"2","name":"f"}`
		done = `{"type":"function_call_output","call_id":"1","output":"r"}`
	)
	for _, c := range []struct {
		items []string
		want  []int // the index of each message's first item
	}{
		{[]string{text, text}, []int{0, 1}},
		{[]string{text, one, two}, []int{0}},
		{[]string{why, text, why, one}, []int{0, 2}},
		{[]string{why, one, why, two, text, done}, []int{0, 5}},
		{[]string{one, done, two}, []int{0, 1, 2}},
	} {
		var in []json.RawMessage
		for _, item := range c.items {
			in = append(in, json.RawMessage(item))
		}
		parsed, _, errs := chat.Parse(chat.OpenAIResponses, in)
		var got []int
		for _, p := range parsed {
			got = append(got, p.Index)
		}
		if !slices.Equal(got, c.want) || len(errs) > 0 {
			t.Errorf("%s: messages at %v, want %v (%v)", c.items, got, c.want, errs)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const chatF, anthropic, responses = chat.OpenAIChat, chat.AnthropicMessages, chat.OpenAIResponses
	const call = `{"type":"function_call","call_id":"c","name":"f"}`
	tags := strings.Repeat(`"t",`, chat.MaxTags) + `"t"`
	for _, c := range []struct {
		format chat.Format
		posted string
		code   string
	}{
		{chatF, `"text"`, chat.CodeMalformed},
		{chatF, `{"role":"user","content":7}`, chat.CodeMalformed},
		{chatF, `{"role":"user","content":["text"]}`, chat.CodeMalformed},
		{chatF, `{"role":"user","content":[{"text":"no type"}]}`, chat.CodeMalformed},
		{chatF, `{"role":"user","content":[{"type":"text"}]}`, chat.CodeMalformed},
		{chatF, `{"role":"user","name":7}`, chat.CodeInvalidField},
		{chatF, `{"content":"no role"}`, chat.CodeUnknownRole},
		{chatF, `{"role":"function","content":""}`, chat.CodeMissingAnswerID},
		{chatF, `{"Role":"user","content":""}`, chat.CodeUnknownRole},
		{chatF, `{"role":"User","content":""}`, chat.CodeUnknownRole},
		{chatF, `{"role":"user","content":"a","content":"b"}`, chat.CodeDuplicateField},
		{chatF, `{"role":"user","role":"system"}`, chat.CodeDuplicateField},
		{chatF, `{"role":"user","agent":"a","\u0061gent":"b"}`, chat.CodeDuplicateField},
		{chatF, `{"role":"user","content":"` + "\xff" + `"}`, chat.CodeInvalidUTF8},
		{chatF, `{"role":"tool","content":"x"}`, chat.CodeMissingAnswerID},
		{chatF, `{"role":"tool","content":"x","tool_call_id":""}`, chat.CodeMissingAnswerID},
		{chatF, `{"role":"assistant","tool_calls":{}}`, chat.CodeMalformed},
		{chatF, `{"role":"assistant","tool_calls":[7]}`, chat.CodeMalformed},
		{chatF, `{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}`, chat.CodeMissingCallID},
		{chatF, `{"role":"assistant","tool_calls":[{"id":"a","function":{}}]}`, chat.CodeMissingCallName},
		{chatF, `{"role":"assistant","tool_calls":[{"id":"a"}]}`, chat.CodeMissingCallName},
		{chatF, `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}]}`,
			chat.CodeMalformed},
		{chatF, `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"a",` +
			`"function":{"name":"g"}}]}`,
			chat.CodeDuplicateCallID},
		{chatF, `{"role":"user","agent":7}`, chat.CodeInvalidField},
		{chatF, `{"role":"user","agent":""}`, chat.CodeInvalidID},
		{chatF, `{"role":"user","delegation_id":"a\tb"}`, chat.CodeInvalidID},
		{chatF, `{"role":"user","delegation_id":"` + strings.Repeat("d", 129) + `"}`, chat.CodeInvalidID},
		{chatF, `{"role":"user","reasoning":{}}`, chat.CodeInvalidField},
		{chatF, `{"role":"user","tags":"t"}`, chat.CodeInvalidField},
		{chatF, `{"role":"user","tags":[7]}`, chat.CodeInvalidField},
		{chatF, `{"role":"user","tags":[""]}`, chat.CodeInvalidTags},
		{chatF, `{"role":"user","tags":[` + tags + `]}`, chat.CodeInvalidTags},
		{chatF, `{"role":"user","metadata":[]}`, chat.CodeInvalidField},
		{chatF, `{"role":"user","created_at":"yesterday"}`, chat.CodeInvalidCreatedAt},
		{chatF, `{"role":"user","created_at":1700000000}`, chat.CodeInvalidCreatedAt},
		{chatF, `{"role":"user","type":"a2a","from_agent":"a"}`, chat.CodeInvalidA2A},
		{chatF, `{"role":"tool","tool_call_id":"c","type":"a2a","from_agent":"a","to_agent":"b"}`, chat.CodeInvalidA2A},
		{anthropic, `{"role":"tool","content":"x"}`, chat.CodeUnknownRole},
		{anthropic, `{"role":"user","content":[{"type":"tool_use","id":"a","name":"f"}]}`, chat.CodeMisplacedBlock},
		{anthropic, `{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a"}]}`,
			chat.CodeMisplacedBlock},
		{anthropic, `{"role":"assistant","content":[{"type":"tool_use","name":"f"}]}`, chat.CodeMissingCallID},
		{anthropic, `{"role":"user","content":[{"type":"tool_result"}]}`, chat.CodeMissingAnswerID},
		{anthropic, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":7}]}`,
			chat.CodeMalformed},
		{anthropic, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result",` +
			`"tool_use_id":"a"}]}`,
			chat.CodeDuplicateCallID},
		{responses, `{"type":7,"role":"user"}`, chat.CodeUnknownItem},
		{responses, `{"type":"message","role":"tool"}`, chat.CodeUnknownRole},
		{responses, `{"type":"function_call","name":"f"}`, chat.CodeMissingCallID},
		{responses, `{"type":"function_call","call_id":"c"}`, chat.CodeMissingCallName},
		{responses, `{"type":"function_call_output","output":"x"}`, chat.CodeMissingAnswerID},
		{responses, `{"type":"reasoning","summary":[]}`, chat.CodeReasoningAlone},
		{responses, `{"type":"reasoning","summary":[]},{"role":"user","content":"x"}`, chat.CodeReasoningAlone},
		{responses, `{"type":"reasoning","delegation_id":"d"},` + call, chat.CodeInvalidField},
		{responses, call + `,` + call, chat.CodeDuplicateCallID},
	} {
		var in []json.RawMessage
		if err := json.Unmarshal([]byte(`[`+c.posted+`]`), &in); err != nil {
			t.Fatalf("%s: %v", c.posted, err)
		}
		_, _, errs := chat.Parse(c.format, in)
		if len(errs) != 1 || errs[0].Code != c.code || errs[0].Detail == "" {
			t.Errorf("%s %s\ngot %v, want %s", c.format, c.posted, errs, c.code)
		}
	}
}

// Errors are reported for every element, in order, so that a client can fix all at once.
func TestParseReportsAll(t *testing.T) {
	_, _, errs := chat.Parse(chat.OpenAIChat, []json.RawMessage{
		[]byte(`{"role":"x"}`), []byte(`{"role":"user","content":"fine"}`), []byte(`{"role":"tool"}`), []byte(`{`),
	})
	var got []string
	for i := range errs {
		got = append(got, fmt.Sprint(errs[i].Index, " ", errs[i].Code))
	}
	want := []string{"0 unknown_role", "2 missing_tool_call_id", "3 malformed_message"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParseTimes(t *testing.T) {
	for posted, want := range map[string]time.Time{
		`"2026-03-01T12:00:00Z"`:      time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		`"2026-03-01T12:00:00+02:00"`: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC),
		`"2026-03-01T12:00:00.25"`:    time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC),
		`null`:                        {},
	} {
		msgs, ok := parseAll(chat.OpenAIChat, `[{"role":"user","created_at":`+posted+`}]`)
		if !ok || !msgs[0].CreatedAt.Equal(want) {
			t.Errorf("%s: got %v, want %v", posted, msgs, want)
		}
	}
}

// A hostile object must not take quadratic time.
func TestParseManyFields(t *testing.T) {
	var b strings.Builder
	b.WriteString(`[{"role":"user"`)
	for i := range 5000 {
		fmt.Fprintf(&b, `,"f%d":%d`, i, i)
	}
	if _, ok := parseAll(chat.OpenAIChat, b.String()+`}]`); !ok {
		t.Error("many fields are refused")
	}
	if _, ok := parseAll(chat.OpenAIChat, b.String()+`,"f\u0034711":0}]`); ok {
		t.Error("a late duplicate is accepted")
	}
}

func BenchmarkParse(b *testing.B) {
	for _, tr := range []int{0, 3, 5} {
		b.Run(transcripts[tr].format.String(), func(b *testing.B) {
			var in []json.RawMessage
			if err := json.Unmarshal([]byte(transcripts[tr].posted), &in); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(transcripts[tr].posted)))
			for b.Loop() {
				chat.Parse(transcripts[tr].format, in)
			}
		})
	}
}

// TestFunctionCalls reads the predecessors of tool calls: a function_call and the message of the role function that
// follows it are a call and its result, and a window shows both as they were posted.
func TestFunctionCalls(t *testing.T) {
	t.Parallel()
	posted := []json.RawMessage{json.RawMessage(`{"role":"user","content":"Oslo?"}`),
		json.RawMessage(`{"role":"assistant","content":null,"function_call":{"name":"weather.now","arguments":"{\"city\":\"Oslo\"}"}}`),
		json.RawMessage(`{"role":"function","name":"weather.now","content":"4 degrees"}`)}
	parsed, skipped, bad := chat.Parse(chat.OpenAIChat, posted)
	if len(bad) > 0 || len(skipped) > 0 || len(parsed) != 3 {
		t.Fatal(parsed, skipped, bad)
	}
	call, result := parsed[1].Message, parsed[2].Message
	if call.Kind != plan.KindCall || len(call.Calls) != 1 || call.Calls[0].Name != "weather.now" || call.Calls[0].Arguments != `{"city":"Oslo"}` ||
		result.Kind != plan.KindResult || result.CallID != call.Calls[0].ID || result.Text != "4 degrees" {
		t.Errorf("%+v %+v", call, result)
	}
	for i := range parsed {
		if fr := chat.Render(chat.OpenAIChat, &parsed[i].Message, chat.Options{}); string(fr.Bytes) != string(posted[i]) {
			t.Errorf("%s is shown as %s", posted[i], fr.Bytes)
		}
	}
	changed := chat.WithArguments(chat.Chat, posted[1], []plan.Argument{{Text: "{}"}})
	if want := `{"role":"assistant","content":null,"function_call":{"name":"weather.now","arguments":"{}"}}`; string(changed) != want {
		t.Errorf("with other arguments: %s", changed)
	}
	// Where a message has both, the tool calls count.
	both := json.RawMessage(`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":` +
		`{"name":"now","arguments":"{}"}}],"function_call":{"name":"then","arguments":"{}"}}`)
	parsed, _, bad = chat.Parse(chat.OpenAIChat, []json.RawMessage{both})
	if len(bad) > 0 || len(parsed) != 1 || len(parsed[0].Message.Calls) != 1 || parsed[0].Message.Calls[0].Name != "now" {
		t.Errorf("%+v %v", parsed, bad)
	}
	changed = chat.WithArguments(chat.Chat, both, []plan.Argument{{Text: `{"a":1}`}})
	if !strings.Contains(string(changed), `"name":"now","arguments":"{\"a\":1}"`) || !strings.Contains(string(changed), `"name":"then","arguments":"{}"`) {
		t.Errorf("with other arguments: %s", changed)
	}
	for _, wrong := range []string{`{"role":"function","content":"4"}`, `{"role":"assistant","function_call":{"arguments":"{}"}}`} {
		if _, _, bad := chat.Parse(chat.OpenAIChat, []json.RawMessage{json.RawMessage(wrong)}); len(bad) != 1 {
			t.Errorf("%s: %v", wrong, bad)
		}
	}
}
