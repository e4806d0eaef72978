package wire

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
)

var formats = []chat.Format{chat.OpenAIChat, chat.OpenAIResponses, chat.AnthropicMessages}

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    chat.Format
		raw  string
		want func(b *Body) bool
	}{
		{"chat", chat.OpenAIChat, ` {"model":"m","stream":true,"n":2,"max_tokens":1,"max_completion_tokens":7,` +
			`"messages":[{"role":"system","content":"a"},{"role":"developer","content":[{"type":"text","text":"b"}]},` +
			`{"role":"user","content":"c"},{"role":"system","content":"d"}],"tools":[{}],"stream_options":{"include_usage":true}}`,
			func(b *Body) bool {
				return b.Model == "m" && b.Stream && b.Choices == 2 && *b.MaxTokens == 7 && len(b.Head) == 2 &&
					len(b.Messages) == 2 && len(b.Tools) == 1 && b.WantsUsage &&
					string(b.HeadText()) == `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`
			}},
		{"responses", chat.OpenAIResponses, `{"input":"hello","instructions":"be kind","previous_response_id":"resp_1",` +
			`"conversation":{"id":"conv_1"},"background":true,"max_output_tokens":9}`,
			func(b *Body) bool {
				return string(b.Messages[0]) == `{"role":"user","content":"hello"}` && b.Previous == "resp_1" &&
					b.Conversation == "conv_1" && b.Background && *b.MaxTokens == 9 && b.Choices == 1 &&
					string(b.HeadText()) == `[{"type":"text","text":"be kind"}]`
			}},
		{"messages", chat.AnthropicMessages, `{"system":[{"type":"text","text":"s"}],"max_tokens":5,"thinking":{"type":"adaptive"},` +
			`"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]}`,
			func(b *Body) bool {
				return b.Thinking == "adaptive" && b.CacheControl == Breakpoints{Text: true} && len(b.Head) == 0 &&
					string(b.HeadText()) == `[{"type":"text","text":"s"}]`
			}},
		{"nothing", chat.OpenAIChat, `{}`, func(b *Body) bool {
			return b.Model == "" && b.Messages == nil && b.MaxTokens == nil && b.HeadText() == nil && b.Choices == 1
		}},
	} {
		b, err := Read(tt.f, []byte(tt.raw))
		if err != nil || !tt.want(b) {
			t.Errorf("%s: %+v, %v", tt.name, b, err)
		}
	}
	for _, bad := range []string{``, `[]`, `{`, `{"model":"a","model":"b"}`, `{"messages":{}}`, `{"messages":[1]}`,
		`{"messages":[{"role":"user","role":"system"}]}`} {
		if _, err := Read(chat.OpenAIChat, []byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestWith(t *testing.T) {
	user := []json.RawMessage{json.RawMessage(`{"role":"user","content":"new"}`)}
	for _, tt := range []struct {
		name string
		f    chat.Format
		raw  string
		edit Edit
		want string
	}{
		{"nothing", chat.OpenAIChat, `{ "a" : 1 , "messages" : [ ] }`, Edit{}, `{ "a" : 1 , "messages" : [ ] }`},
		{"messages", chat.OpenAIChat, `{ "x" : {"y":[1, 2]} , "messages" : [ {"role":"user"} ], "zz":1e3 }`,
			Edit{Messages: user}, `{ "x" : {"y":[1, 2]} , "messages" : [{"role":"user","content":"new"} ], "zz":1e3 }`},
		{"one more message", chat.OpenAIChat, `{"messages":[ {"role":"assistant"} , {"role":"user"} ]}`,
			Edit{Messages: []json.RawMessage{json.RawMessage(`{"role":"assistant"}`), json.RawMessage(`{"role":"user"}`), user[0]}},
			`{"messages":[ {"role":"assistant"} , {"role":"user"},{"role":"user","content":"new"} ]}`},
		{"input as a text", chat.OpenAIResponses, `{"input":"hi","store":false}`, Edit{Messages: user},
			`{"input":[{"role":"user","content":"new"}],"store":false}`},
		{"no input yet", chat.OpenAIResponses, `{"previous_response_id":"r"}`, Edit{Messages: user, Resolved: true},
			`{"input":[{"role":"user","content":"new"}]}`},
		{"resolved in the middle", chat.OpenAIResponses, `{"a":1, "previous_response_id":"r", "conversation": "c","b":2}`,
			Edit{Resolved: true}, `{"a":1,"b":2}`},
		{"resolved at the end", chat.OpenAIResponses, `{"a":1, "conversation": "c" }`, Edit{Resolved: true}, `{"a":1 }`},
		{"resolved alone", chat.OpenAIResponses, `{ "conversation": null }`, Edit{Resolved: true}, `{  }`},
		{"system", chat.AnthropicMessages, `{"system":"a","messages":[]}`, Edit{System: json.RawMessage(`"b"`)},
			`{"system":"b","messages":[]}`},
		{"usage", chat.OpenAIChat, `{"stream":true}`, Edit{IncludeUsage: true},
			`{"stream":true,"stream_options":{"include_usage":true}}`},
		{"usage beside", chat.OpenAIChat, `{"stream_options":{"o":1},"stream":true}`, Edit{IncludeUsage: true},
			`{"stream_options":{"o":1,"include_usage":true},"stream":true}`},
		{"usage was off", chat.OpenAIChat, `{"stream_options":{"include_usage":false},"stream":true}`, Edit{IncludeUsage: true},
			`{"stream_options":{"include_usage":true},"stream":true}`},
		{"usage of null", chat.OpenAIChat, `{"stream_options":null,"stream":true}`, Edit{IncludeUsage: true},
			`{"stream_options":{"include_usage":true},"stream":true}`},
		{"usage is asked for", chat.OpenAIChat, `{"stream_options":{"include_usage" : true},"stream":true}`,
			Edit{IncludeUsage: true}, `{"stream_options":{"include_usage" : true},"stream":true}`},
		{"no stream", chat.OpenAIChat, `{"a":1}`, Edit{IncludeUsage: true}, `{"a":1}`},
		{"drop blocks", chat.AnthropicMessages, `{"thinking":{"type":"adaptive","display":"omitted"}}`, Edit{DropBlocks: true},
			`{"thinking":{"type":"adaptive","display":"omitted","block_binding":{"prefix_mismatch_behavior":"drop_block"}}}`},
		{"drop blocks beside", chat.AnthropicMessages, `{"thinking":{"type":"adaptive","block_binding":{"x":1}}}`,
			Edit{DropBlocks: true},
			`{"thinking":{"type":"adaptive","block_binding":{"x":1,"prefix_mismatch_behavior":"drop_block"}}}`},
		{"no adaptive thinking", chat.AnthropicMessages, `{"thinking":{"type":"between_tools"}}`, Edit{DropBlocks: true},
			`{"thinking":{"type":"between_tools"}}`},
	} {
		b, err := Read(tt.f, []byte(tt.raw))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := string(b.With(tt.edit)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestWithoutThinking(t *testing.T) {
	raw := `{"model":"m","messages":[ {"role":"assistant","content":[{"type":"compaction","content":"so far","signature":"s"}]},` +
		`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},` +
		`{"type":"tool_use","id":"1","name":"n","input":{}}]},{"role":"assistant","content":[{"type":"redacted_thinking","data":"d"}]}],"z":[ 1 ]}`
	want := `{"model":"m","messages":[{"role":"assistant","content":[{"type":"text","text":"so far"}]},` +
		`{"role":"user","content":"q"},{"role":"assistant","content":[` +
		`{"type":"tool_use","id":"1","name":"n","input":{}}]},{"role":"assistant","content":"…"}],"z":[ 1 ]}`
	if got, ok := WithoutThinking([]byte(raw)); !ok || string(got) != want {
		t.Errorf("%v %s", ok, got)
	}
	if got, ok := WithoutThinking([]byte(`{"messages":[{"role":"user","content":"q"}]}`)); ok {
		t.Errorf("something was left out: %s", got)
	}
}

func TestReminded(t *testing.T) {
	said := func(role, text string) json.RawMessage {
		return bodyObject(t, map[string]any{"role": role, "content": text})
	}
	one, two := reminder.Title+"\n- [fact] a: one", reminder.Title+"\n- [fact] b: two"
	client := []json.RawMessage{said("system", "s"), said("user", "first"), said("assistant", "x"), said("user", "yes"),
		said("assistant", "y"), said("user", "yes")}
	window := []json.RawMessage{said("user", "before the client's front"), said("assistant", "w"), said("user", one),
		said("user", "first"), said("assistant", "x"), said("user", "yes"), said("assistant", "y"), said("user", two),
		said("user", "yes")}
	want := slices.Insert(slices.Insert(slices.Clone(client), 5, said("user", two)), 1, said("user", one))
	for _, f := range []chat.Format{chat.OpenAIChat, chat.OpenAIResponses} {
		got, shown := Reminded(f, client, window)
		if shown != 2 || !slices.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%v: %d, %s", f, shown, got)
		}
	}
	blocks := func(role string, list ...map[string]any) json.RawMessage {
		return bodyObject(t, map[string]any{"role": role, "content": list})
	}
	text := func(s string) map[string]any { return map[string]any{"type": "text", "text": s} }
	result := map[string]any{"type": "tool_result", "tool_use_id": "1", "content": "r"}
	client = []json.RawMessage{said("user", "first"), blocks("assistant", text("x")), blocks("user", result, text("go on"))}
	window = []json.RawMessage{blocks("user", text(one), text("first")), blocks("assistant", text("x")),
		blocks("user", result, text(two), text("go on"))}
	own := `{"role":"user","content":[` + string(bodyObject(t, text(one))) + `]}`
	want = []json.RawMessage{json.RawMessage(own), client[0], client[1], window[2]}
	got, shown := Reminded(chat.AnthropicMessages, client, window)
	if shown != 2 || !slices.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		t.Errorf("%d, %s", shown, got)
	}
}

func bodyObject(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// span finds the value of a member of the outermost object, using the standard library.
func span(t testing.TB, raw []byte, name string) (from, to int, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
		if key == name {
			to = int(dec.InputOffset())
			return to - len(value), to, true
		}
	}
	return 0, 0, false
}

// FuzzWith changes the messages and the system prompt of any body. The rest of the body keeps the client's bytes, and
// the result is valid JSON.
func FuzzWith(f *testing.F) {
	for _, seed := range []string{`{"messages":[{"role":"user","content":"a"}],"system":"s","x":"é\u0000\\\""}`,
		` {"system":null,"messages" : [ ] , "messagesx":[{}], "a":{"messages":[1]}} `, `{"input":"a","input2":[]}`, `{}`,
		`{"stream":true,"stream_options" : { } ,"previous_response_id":"r","input":[{"type":"message"} , {}]}`} {
		for i := range formats {
			f.Add(i, []byte(seed), "said")
		}
	}
	f.Fuzz(func(t *testing.T, which int, raw []byte, text string) {
		format := formats[((which%3)+3)%3]
		b, err := Read(format, raw)
		if err != nil {
			return
		}
		said := bodyObject(t, map[string]any{"role": "user", "content": text})
		out := b.With(Edit{Messages: []json.RawMessage{said}, System: nil})
		if !json.Valid(out) {
			t.Fatalf("%s became %s", raw, out)
		}
		name := b.listName()
		if from, to, ok := span(t, raw, name); ok {
			at, end, _ := span(t, out, name)
			if !bytes.Equal(raw[:from], out[:at]) || !bytes.Equal(raw[to:], out[end:]) {
				t.Errorf("beside %s, %s became %s", name, raw, out)
			}
		}
		var was, is map[string]json.RawMessage
		if json.Unmarshal(raw, &was) != nil || json.Unmarshal(out, &is) != nil {
			t.Fatal("no objects")
		}
		var list []json.RawMessage
		if json.Unmarshal(is[name], &list) != nil || len(list) != 1 || !bytes.Equal(list[0], said) {
			t.Errorf("%s has other messages than %s", out, said)
		}
		delete(was, name)
		delete(is, name)
		if !maps.EqualFunc(was, is, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%s became %s", raw, out)
		}
		whole := b.With(Edit{Messages: b.All(), System: b.object.Get("system"), IncludeUsage: true, Resolved: true, DropBlocks: true})
		if !json.Valid(whole) {
			t.Errorf("%s became %s", raw, whole)
		}
		if bytes.Contains(raw, []byte("previous")) && strings.Contains(string(keys(t, whole)), "|previous_response_id|") &&
			format == chat.OpenAIResponses {
			t.Errorf("%s still names what the provider keeps", whole)
		}
		if _, err := Read(format, whole); err != nil {
			t.Errorf("%s is no body any more: %v", whole, err)
		}
	})
}

func keys(t testing.TB, raw []byte) []byte {
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	out := []byte("|")
	for name := range o {
		out = append(append(out, name...), '|')
	}
	return out
}
