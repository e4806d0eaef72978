package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// published counts the tokens of a window's messages as OpenAI's cookbook does: three for each message, the text of
// every value, one for a name. A call counts as a message. It reads what a model would be sent, and knows nothing about
// how that was made. The number of messages is given, because Anthropic's format joins messages and Responses' format
// splits them.
func published(t *testing.T, f hard.Format, messages []json.RawMessage, told int, count func(string) int) (n int) {
	t.Helper()
	var text func(v any) int
	text = func(v any) (n int) {
		switch v := v.(type) {
		case string:
			return count(v)
		case []any:
			for _, p := range v {
				n += text(p)
			}
		case map[string]any:
			switch v["type"] {
			case "tool_use":
				input := v["input"].(map[string]any)
				raw, _ := json.Marshal(input)
				return 3 + text(v["name"]) + text(v["id"]) + count(string(raw))
			case "tool_result":
				return text(v["tool_use_id"]) + text(v["content"])
			}
			return text(v["text"])
		}
		return n
	}
	for _, raw := range messages {
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		switch m["type"] {
		case "function_call":
			n += 3 + text(m["name"]) + text(m["arguments"]) + text(m["call_id"])
			continue
		case "function_call_output":
			n += text(m["call_id"]) + text(m["output"])
			continue
		}
		n += text(m["content"]) + text(m["tool_call_id"])
		if f == hard.Chat {
			n += 3 + text(m["role"])
			if m["name"] != nil {
				n += 1 + text(m["name"])
			}
		}
		calls, _ := m["tool_calls"].([]any)
		for _, c := range calls {
			call := c.(map[string]any)
			function := call["function"].(map[string]any)
			n += 3 + text(function["name"]) + text(function["arguments"]) + text(call["id"])
		}
	}
	if f != hard.Chat {
		n += 4 * told
	}
	return n + primer
}

func tokenizer(t *testing.T) func(string) int {
	t.Helper()
	c, err := tiktoken.New()
	if err != nil {
		t.Fatal(err)
	}
	return func(s string) int { return c.Count("o200k_base", s) }
}

// TestRecordedCounts compares the tokens of windows of recorded sessions with the published formula, applied to the
// windows themselves: exactly in openai.chat, within 3 % if the format joins or splits messages.
func TestRecordedCounts(t *testing.T) {
	count, windows := tokenizer(t), 0
	for id, transcript := range transcripts(t) {
		c := own(t)
		c.session = id
		for _, turn := range transcript.Turns {
			c.say(turn)
		}
		for _, a := range budgets() {
			got := c.post(c.path("/context"), a.body(id)).want(200, 422)
			if got.status != 200 { // the budget is too small
				continue
			}
			w := new(window)
			got.into(w)
			windows++
			told := w.Usage.Messages
			if a.target() != hard.Chat {
				told = w.Usage.HistoryMessages
				if a.system != "" {
					told++
				}
				for _, r := range w.Report {
					if r.Action == "inject" && r.ReasonCode != "call_unanswered" || r.Action == "compress" {
						told++
					}
				}
			}
			want := published(t, a.target(), w.Messages, told, count) + count(w.System)
			off := w.Usage.Tokens - want
			if a.target() == hard.Chat && off != 0 || off*off*10000 > 9*want*want {
				t.Errorf("%s in %s: %d tokens, the formula gives %d", id, a.target(), w.Usage.Tokens, want)
			}
		}
	}
	if windows < 100 {
		t.Errorf("only %d windows were counted", windows)
	}
}

// TestCountsOfParts posts messages whose parts cost tokens in addition, and asks for windows with tools and another
// scale.
func TestCountsOfParts(t *testing.T) {
	count := tokenizer(t)
	long := strings.Repeat("Whatever the model thought, it counts. ", 1500)
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewPaletted(image.Rect(0, 0, 1000, 1000), color.Palette{color.Black})); err != nil {
		t.Fatal(err)
	}
	parts := []struct {
		name     string
		messages []object
		want     int // of the parts
	}{
		{"thinking", []object{user("hi"), {"role": "assistant", "content": []object{
			{"type": "thinking", "thinking": long, "signature": "EqQB"}, {"type": "text", "text": "Yes."}}}},
			count("hi") + count(long) + count("Yes.") + 4},
		{"a text document", []object{{"role": "user", "content": []object{{"type": "document", "source": object{
			"type": "text", "media_type": "text/plain", "data": long}}}}}, count(long)},
		{"a picture", []object{{"role": "user", "content": []object{{"type": "image", "source": object{"type": "base64",
			"media_type": "image/png", "data": base64.StdEncoding.EncodeToString(picture.Bytes())}}}}}, 36 * 36},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			c := own(t)
			c.do("POST", c.path("/turns"), object{"format": "anthropic.messages", "messages": p.messages}).want(201)
			ask := object{"format": "anthropic.messages", "budget": object{"max_tokens": 0, "context_window": 40000,
				"reserve_tokens": 1000}}
			w := c.assemble(ask)
			want := p.want + 4 + primer
			if off := w.Usage.Tokens - want; off*off*10000 > 9*want*want {
				t.Errorf("%d tokens, want %d", w.Usage.Tokens, want)
			}
			// Another format shows some of the parts differently, and some not at all.
			chat := c.assemble(object{"budget": object{"max_tokens": 0}})
			other := published(t, hard.Chat, chat.Messages, 0, count)
			if p.name == "a picture" {
				other += 1229
			}
			if off := chat.Usage.Tokens - other; off*off*10000 > 9*other*other || p.name == "thinking" && other > 50 {
				t.Errorf("%d tokens in openai.chat, want %d", chat.Usage.Tokens, other)
			}
			ask["tools"] = []object{{"name": "get_weather", "description": "The weather.", "input_schema": object{
				"type": "object", "properties": object{"city": object{"type": "string", "description": "Which."}}}}}
			ask["system"] = "You help."
			tools := 12 + 7 + count("get_weather:The weather") + 3 + 3 + count("city:string:Which")
			with := c.assemble(ask)
			got := with.Usage.Parts
			if got.Tools != tools || got.System != 4+count("You help.") || got.Reserved != 1000 ||
				got.History != w.Usage.Tokens ||
				got.System+got.Tools+got.History+got.Reserved+got.Free != 40000 {
				t.Errorf("%+v, want %d for tools and %d for the history", got, tools, w.Usage.Tokens)
			}
			c.replay(t, with)

			c.do("PATCH", c.path("/settings"), object{"token_scale": 1.5}).want(200)
			ask["budget"] = object{"max_tokens": 0}
			scaled := c.assemble(ask)
			texts := with.Usage.Tokens
			if p.name == "a picture" { // does not depend on the tokenizer
				texts -= 36 * 36
			}
			if off := scaled.Usage.Tokens - with.Usage.Tokens - texts/2; off < -3 || off > 3 ||
				scaled.Usage.Parts.Tools != (tools*3+1)/2 {
				t.Errorf("%d tokens scaled, %d before: %+v", scaled.Usage.Tokens, with.Usage.Tokens, scaled.Usage.Parts)
			}
			c.replay(t, scaled)
			c.replay(t, with) // with the settings of that time
			c.do("PATCH", c.path("/settings"), object{"token_scale": 0.05}).wantCode(422, "out_of_range")
			c.do("PATCH", c.path("/settings"), object{"token_scale": 1.2345}).wantCode(422, "invalid_value")
			c.do("PATCH", c.path("/settings"), object{"image_tokens": "old"}).wantCode(422, "invalid_value")
			ask["tools"] = []object{{}}
			c.post(c.path("/context"), ask).wantCode(422, "invalid_value")
			ask["budget"], ask["tools"] = object{"context_window": 1010, "reserve_tokens": 1000}, []object{}
			c.post(c.path("/context"), ask).wantCode(422, "budget_too_small")
		})
	}
}
