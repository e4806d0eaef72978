package chat_test

import (
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/chat/chattest"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// TestTranslate compares messages with their whole window in each format. An empty want means the posted message
// itself.
func TestTranslate(t *testing.T) {
	const args = `"{\"a\":1}"`
	for _, c := range []struct {
		name, posted                 string
		format                       chat.Format
		openai, anthropic, responses string
	}{
		{
			name: "text", format: chat.OpenAIChat, posted: `{"role":"user","content":"a\u0062","name":"Ada"}`,
			anthropic: `{"role":"user","content":[{"type":"text","text":"ab"}]}`,
			responses: `{"role":"user","content":"ab"}`,
		}, {
			name: "sender", format: chat.OpenAIChat,
			posted: `{"role":"user","content":[{"type":"text","text":"hi","x":1}],"type":"a2a","from_agent":"a",` +
				`"to_agent":"b"}`,
			openai:    `{"role":"user","content":[{"type":"text","text":"[from a to b] hi","x":1}]}`,
			anthropic: `{"role":"user","content":[{"type":"text","text":"[from a to b] hi"}]}`,
			responses: `{"role":"user","content":"[from a to b] hi"}`,
		}, {
			name: "image", format: chat.OpenAIChat,
			posted: `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
				`QQ=="}}]}`,
			anthropic: `{"role":"user","content":[{"type":"image","source":{"type":"base64",` +
				`"media_type":"image/png","data":"QQ=="}}]}`,
			responses: `{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,QQ=="}]}`,
		}, {
			name: "audio", format: chat.OpenAIChat,
			posted: `{"role":"user","content":[{"type":"input_audio","input_audio":{}},{"type":"text",` +
				`"text":"listen"}]}`,
			anthropic: `{"role":"user","content":[{"type":"text","text":"[input_audio]"},{"type":"text",` +
				`"text":"listen"}]}`,
			responses: `{"role":"user","content":[{"type":"input_text","text":"[input_audio]"},{"type":"input_text",` +
				`"text":"listen"}]}`,
		}, {
			name: "empty", format: chat.OpenAIChat, posted: `{"role":"user","content":null}`,
			openai:    `{"role":"user","content":""}`,
			anthropic: `{"role":"user","content":[{"type":"text","text":"…"}]}`,
			responses: `{"role":"user","content":""}`,
		}, {
			name: "image, anthropic", format: chat.AnthropicMessages,
			posted:    `{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y"}}]}`,
			openai:    `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}`,
			responses: `{"role":"user","content":[{"type":"input_image","image_url":"https://x/y"}]}`,
		}, {
			name: "blank block", format: chat.AnthropicMessages,
			posted: `{"role":"user","content":[{"type":"text","text":" "},{"type":"text","text":"a",` +
				`"cache_control":{}}]}`,
			openai:    `{"role":"user","content":" \na"}`,
			anthropic: `{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}]}`,
			responses: `{"role":"user","content":" \na"}`,
		}, {
			name: "as posted", format: chat.AnthropicMessages, posted: `{ "content" : "a\u0062", "role":"user" }`,
			openai:    `{"role":"user","content":"ab"}`,
			responses: `{"role":"user","content":"ab"}`,
		}, {
			name: "item", format: chat.OpenAIResponses,
			posted:    `{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}],"id":"msg_1"}`,
			openai:    `{"role":"user","content":"a"}`,
			anthropic: `{"role":"user","content":[{"type":"text","text":"a"}]}`,
		}, {
			name: "call", format: chat.OpenAIChat,
			posted: `{"role":"user","content":"q"},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"c.1","function":{"name":"f","arguments":` +
				args + `}}]},` +
				`{"role":"tool","tool_call_id":"c.1","content":"r"}`,
			anthropic: `{"role":"user","content":[{"type":"text","text":"q"}]},` +
				`{"role":"assistant","content":[{"type":"tool_use","id":"c_1_2","name":"f","input":{"a":1}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c_1_2","content":"r"}]}`,
			responses: `{"role":"user","content":"q"},` +
				`{"type":"function_call","call_id":"c.1","name":"f","arguments":` + args + `},` +
				`{"type":"function_call_output","call_id":"c.1","output":"r"}`,
		}, {
			name: "call, anthropic", format: chat.AnthropicMessages,
			posted: `{"role":"user","content":"q"},` +
				`{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"w"},` +
				`{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,"content":"r"},` +
				`{"type":"text","text":"x"}]}`,
			openai: `{"role":"user","content":"q"},` +
				`{"role":"assistant","content":"w","tool_calls":[` +
				`{"id":"c","type":"function","function":{"name":"f","arguments":` + args + `}}]},` +
				`{"role":"tool","content":"r","tool_call_id":"c"},{"role":"user","content":"x"}`,
			responses: `{"role":"user","content":"q"},{"role":"assistant","content":"w"},` +
				`{"type":"function_call","call_id":"c","name":"f","arguments":` + args + `},` +
				`{"type":"function_call_output","call_id":"c","output":"r"},{"role":"user","content":"x"}`,
		}, {
			name: "call, responses", format: chat.OpenAIResponses,
			posted: `{"role":"user","content":"q"},` +
				`{"type":"reasoning","id":"r"},{"type":"function_call","call_id":"c","name":"f","arguments":` + args +
				`},` +
				`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"r"}]}`,
			openai: `{"role":"user","content":"q"},` +
				`{"role":"assistant","content":null,"tool_calls":[` +
				`{"id":"c","type":"function","function":{"name":"f","arguments":` + args + `}}]},` +
				`{"role":"tool","content":"r","tool_call_id":"c"}`,
			anthropic: `{"role":"user","content":[{"type":"text","text":"q"}]},` +
				`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}`,
		}, {
			name: "arguments that are no object", format: chat.AnthropicMessages,
			posted: `{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"c",` +
				`"name":"f","input":[1]}]}`,
			openai: `{"role":"user","content":"q"},` +
				`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",` +
				`"function":{"name":"f","arguments":"[1]"}}]}`,
			anthropic: `{"role":"user","content":"q"},` +
				`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"arguments":[1]}}]}`,
			responses: `{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"f",` +
				`"arguments":"[1]"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			msgs, ok := parseAll(c.format, "["+c.posted+"]")
			if !ok {
				t.Fatal("does not parse")
			}
			as := atoms(msgs)
			for f, want := range map[chat.Format]string{
				chat.OpenAIChat: c.openai, chat.AnthropicMessages: c.anthropic, chat.OpenAIResponses: c.responses,
			} {
				if want == "" {
					want = c.posted
				}
				w := build(f, as, "", false)
				if got := string(w.Messages); got != "["+want+"]" {
					t.Errorf("%s\ngot  %s\nwant [%s]", f, got, want)
				}
				if err := chattest.Validate(f, w.Messages, w.System, chattest.AllowOpenTail); err != nil {
					t.Errorf("%s: %v", f, err)
				}
			}
		})
	}
}

// TestAnthropicJoins checks what the alternation of roles requires.
func TestAnthropicJoins(t *testing.T) {
	msgs, _ := parseAll(chat.AnthropicMessages, `[
		{"role":"assistant","content":"hello"},
		{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}},
			{"type":"tool_use","id":"c_5","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"},{"type":"tool_result","tool_use_id":"c_5"}]},
		{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"again"}]},
		{"role":"user","content":"thanks"},{"role":"user","content":""},
		{"role":"assistant","content":""}]`)
	w := build(chat.AnthropicMessages, atoms(msgs), "Be brief.", true)
	want := `[{"role":"user","content":"…"},` +
		`{"role":"assistant","content":[{"type":"text","text":"hello"},{"type":"tool_use","id":"c","name":"f",` +
		`"input":{}},` +
		`{"type":"tool_use","id":"c_5","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"},{"type":"tool_result",` +
		`"tool_use_id":"c_5"}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"c_5_","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c_5_","content":"again"},{"type":"text",` +
		`"text":"thanks"}]},` +
		`{"role":"assistant","content":[{"type":"text","text":"…"}]}]`
	if got := string(w.Messages); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if want := "Be brief.\n\nnotice \"one\"\n\n\nnotice \"one\"\n"; w.System != want {
		t.Errorf("system %q, want %q", w.System, want)
	}
	if w.Rendered != 6 {
		t.Errorf("rendered %d, want 6", w.Rendered)
	}
	if err := chattest.Validate(chat.AnthropicMessages, w.Messages, w.System); err != nil {
		t.Error(err)
	}
}

func TestNotices(t *testing.T) {
	msgs, _ := parseAll(chat.OpenAIChat, `[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`)
	for _, f := range []chat.Format{chat.OpenAIChat, chat.OpenAIResponses} {
		w := build(f, atoms(msgs), "<s>", true)
		const notice = `{"role":"system","content":"notice \"one\"\n"}`
		want := `[{"role":"system","content":"<s>"},` + notice + `,{"role":"user","content":"a"},` + notice +
			`,{"role":"assistant","content":"b"}]`
		if string(w.Messages) != want || w.Rendered != 5 || w.System != "" {
			t.Errorf("%s: %d, %q\ngot  %s\nwant %s", f, w.Rendered, w.System, w.Messages, want)
		}
	}
}

func TestTextFormat(t *testing.T) {
	if w := build(chat.Text, nil, "", false); string(w.Text) != "(first turn — no prior context)" || w.Messages != nil {
		t.Errorf("empty: %q", w.Text)
	}
	if w := build(chat.Text, nil, "Be brief.",
		false); string(w.Text) != "Be brief.\n\n(first turn — no prior context)" {
		t.Errorf("empty with a system prompt: %q", w.Text)
	}
	msgs, _ := parseAll(chat.OpenAIChat, `[
		{"role":"user","content":"old"},
		{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"u"}}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":1}"}}]},
		{"role":"tool","tool_call_id":"c","content":"[1]"},
		{"role":"assistant","content":"A list."},
		{"role":"assistant","content":"yours","type":"a2a","from_agent":"a","to_agent":"b"}]`)
	as := atoms(msgs)
	as[0].msgs[0] = as[0].msgs[0].Compressed(0, "old", "older")
	want := "Be brief.\n\n[earlier question] (turn 0): old\nolder\nUser (turn 1): what is " +
		"this?\n[image]\n%s\nAssistant: A list.\n" +
		"Assistant: [from a to b] yours"
	w := build(chat.Text, as, "Be brief.", false)
	if want := strings.Replace(want, "%s", "Tool tool: [1]", 1); string(w.Text) != want || w.Rendered != 5 {
		t.Errorf("%d lines\ngot  %q\nwant %q", w.Rendered, w.Text, want)
	}
	as[2].msgs[1] = as[2].msgs[1].Markdown(as[2].msgs[0].Calls[0])
	md := "## Tool: f\n\n**Input:**\n{\n  \"a\": 1\n}\n\n**Output:**\n[\n  1\n]"
	w = build(chat.Text, as, "Be brief.", false)
	if want := strings.Replace(want, "%s", md, 1); string(w.Text) != want {
		t.Errorf("got  %q\nwant %q", w.Text, want)
	}
}

func TestFormatNames(t *testing.T) {
	for _, name := range []string{"openai.chat", "anthropic.messages", "openai.responses", "text"} {
		if f, ok := chat.ParseFormat(name); !ok || f.String() != name {
			t.Errorf("%s: %v %v", name, f, ok)
		}
	}
	if _, ok := chat.ParseFormat(""); ok || chat.Format(0).String() != "" {
		t.Error("the zero format has a name")
	}
}

// benchmarkWindow returns fifty fragments of about 400 bytes, a quarter of them tool pairs.
func benchmarkWindow(b *testing.B, f chat.Format) []chat.Fragment {
	text := strings.Repeat("All work and no play. ", 15)
	posted := `{"role":"user","content":"` + text + `"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":"` + text + `"},{"role":"assistant","content":"` + text + `"}`
	msgs, ok := parseAll(chat.OpenAIChat, "["+strings.Repeat(posted+",", 12)+posted+"]")
	if !ok {
		b.Fatal("does not parse")
	}
	var frs []chat.Fragment
	for i := range msgs[:50] {
		frs = append(frs, chat.Render(f, &msgs[i], chat.Options{Turn: 1}))
	}
	return frs
}

func BenchmarkBuilder(b *testing.B) {
	for _, f := range append(messageFormats, chat.Text) {
		frs := benchmarkWindow(b, f)
		var builder chat.Builder
		var buf []byte
		window := func() []byte {
			builder.Reset(f, buf[:0], render.SystemText("You are a helpful assistant."))
			for i := range frs {
				builder.Add(&frs[i], uint64(i))
			}
			return builder.Finish().Buf
		}
		buf = window()
		b.Run(f.String(), func(b *testing.B) {
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			for b.Loop() {
				buf = window()
			}
		})
		if f == chat.OpenAIChat {
			// The baseline: the same bytes in the same fifty pieces.
			var pieces [][]byte
			for i := range 50 {
				pieces = append(pieces, buf[i*len(buf)/50:(i+1)*len(buf)/50])
			}
			out := make([]byte, 0, len(buf))
			b.Run("copy", func(b *testing.B) {
				b.SetBytes(int64(len(buf)))
				for b.Loop() {
					out = out[:0]
					for _, p := range pieces {
						out = append(out, p...)
					}
				}
			})
		}
	}
}

func BenchmarkRender(b *testing.B) {
	msgs, _ := parseAll(chat.OpenAIChat, `[{"role":"user","content":"`+strings.Repeat("word ", 80)+`","agent":"main"}]`)
	for _, f := range messageFormats {
		b.Run(f.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				chat.Render(f, &msgs[0], chat.Options{})
			}
		})
	}
}

// TestBuilderAllocatesNothing checks that a warm builder makes an OpenAI window in the caller's memory.
func TestBuilderAllocatesNothing(t *testing.T) {
	m := chat.Message{Role: plan.RoleUser, Text: "hi"}
	fr := chat.Render(chat.OpenAIChat, &m, chat.Options{})
	var b chat.Builder
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		b.Reset(chat.OpenAIChat, buf, render.SystemText("system"))
		b.Notice("notice")
		b.Add(&fr, 1)
		b.Add(&fr, 2)
		b.Finish()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
