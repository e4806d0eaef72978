package chat_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

const everyPart = plan.PartImage | plan.PartAudio | plan.PartDocument | plan.PartThinking

// Parts of a message are the same as its header will say, in every format.
func TestParts(t *testing.T) {
	for posted, want := range map[string]plan.Parts{
		`openai.chat {"role":"user","content":"text"}`:                                                                                     0,
		`openai.chat {"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":"u"}]}`:                          plan.PartImage,
		`openai.chat {"role":"user","content":[{"type":"input_audio","input_audio":{}}]}`:                                                  plan.PartAudio,
		`openai.chat {"role":"assistant","content":"a","audio":{"id":"audio_1"}}`:                                                          plan.PartAudio,
		`openai.chat {"role":"assistant","content":"a","audio":null}`:                                                                      0,
		`openai.chat {"role":"user","content":[{"type":"file","file":{}},{"type":"image_url","image_url":"u"}]}`:                           plan.PartDocument | plan.PartImage,
		`openai.chat {"role":"assistant","content":"a","reasoning":"because"}`:                                                             plan.PartThinking,
		`anthropic.messages {"role":"user","content":[{"type":"document","source":{}}]}`:                                                   plan.PartDocument,
		`anthropic.messages {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{}}]}]}`: plan.PartImage,
		`anthropic.messages {"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"a"}]}`:           plan.PartThinking,
		`openai.responses {"role":"user","content":[{"type":"input_file","file_id":"f"}]}`:                                                 plan.PartDocument,
		`openai.responses {"type":"reasoning","id":"rs_1","summary":[]},{"type":"function_call","call_id":"c","name":"n"}`:                 plan.PartThinking,
	} {
		name, body, _ := strings.Cut(posted, " ")
		msgs, ok := parseAll(formatNamed(t, name), "["+body+"]")
		if !ok || len(msgs) != 1 || msgs[0].Parts != want {
			t.Errorf("%s: %+v", posted, msgs)
		}
	}
}

func formatNamed(t *testing.T, name string) chat.Format {
	t.Helper()
	for _, f := range messageFormats {
		if f.String() == name {
			return f
		}
	}
	t.Fatalf("no format is called %s", name)
	return 0
}

// Removing some parts from a message and parsing it again gives the same message without these parts; nothing else
// changes.
func TestWithout(t *testing.T) {
	stripped := 0
	for _, tr := range transcripts {
		msgs, _ := parseAll(tr.format, tr.posted)
		for i := range msgs {
			for parts := range everyPart + 1 {
				m := &msgs[i]
				got := m.Edited(&plan.Edit{Strip: parts})
				raw := "[" + string(got.Raw) + "]"
				if tr.format == chat.OpenAIResponses {
					raw = string(got.Raw)
				}
				again, ok := parseAll(tr.format, raw)
				if !ok || len(again) != 1 || !reflect.DeepEqual(again[0], got) {
					t.Fatalf("%s without %d is parsed as %+v\nand was %+v", raw, parts, again, got)
				}
				if m.Parts&parts == 0 && (got.Images != m.Images || string(got.Raw) != string(m.Raw)) {
					t.Errorf("%s has none of the parts %d and is changed to %s", m.Raw, parts, got.Raw)
				}
				if got.Parts != m.Parts&^parts || got.Text != m.Text || !reflect.DeepEqual(got.Calls, m.Calls) ||
					got.CallID != m.CallID || got.IsError != m.IsError {
					t.Errorf("%s without %d: %+v", m.Raw, parts, got)
				}
				if m.Parts&parts != 0 {
					stripped++
				}
			}
		}
	}
	if stripped < 50 {
		t.Errorf("parts were taken from %d messages: they hardly have any", stripped)
	}
}

// Responses items that followed a removed reasoning item lose their ids, because the provider would expect the
// reasoning.
func TestWithoutReasoningWithoutIDs(t *testing.T) {
	msgs, ok := parseAll(chat.OpenAIResponses, `[{"type":"reasoning","id":"rs_1","summary":[]},
		{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"a"}]}]`)
	if !ok {
		t.Fatal("not parsed")
	}
	got := msgs[0].Edited(&plan.Edit{Strip: plan.PartThinking})
	if want := `[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}]`; string(got.Raw) != want {
		t.Errorf("%s, want %s", got.Raw, want)
	}
	if kept := msgs[0].Edited(&plan.Edit{Strip: plan.PartImage}); string(kept.Raw) != string(msgs[0].Raw) {
		t.Errorf("%s", kept.Raw)
	}
}

// Arguments change in place. All else stays, byte for byte.
func TestWithArguments(t *testing.T) {
	for _, tr := range transcripts {
		msgs, _ := parseAll(tr.format, tr.posted)
		for i := range msgs {
			m := &msgs[i]
			for call := range m.Calls {
				got := m.Edited(&plan.Edit{Arguments: []plan.Argument{{Call: call, Text: `{"new":true}`}}})
				want := *m
				want.Calls = append([]chat.Call(nil), m.Calls...)
				want.Calls[call].Arguments = `{"new":true}`
				raw := "[" + string(got.Raw) + "]"
				if tr.format == chat.OpenAIResponses {
					raw = string(got.Raw)
				}
				again, ok := parseAll(tr.format, raw)
				want.Raw = got.Raw
				if !ok || len(again) != 1 || !reflect.DeepEqual(again[0], want) ||
					!reflect.DeepEqual(got, want) {
					t.Errorf("%s\nis parsed as %+v\nwant %+v", raw, again, want)
				}
			}
		}
	}
}

// Items of other types have their arguments in their own members.
func TestWithArgumentsOfOtherItems(t *testing.T) {
	for posted, want := range map[string]string{
		`{"type":"custom_tool_call","call_id":"c","name":"sh","input":"ls"}`:                  `[{"type":"custom_tool_call","call_id":"c","name":"sh","input":"{\"x\":1}"}]`,
		`{"type":"local_shell_call","call_id":"c","action":{"type":"exec","command":["ls"]}}`: `[{"type":"local_shell_call","call_id":"c","action":{"x":1}}]`,
		`{"type":"program","call_id":"c"}`:                                                    `[{"type":"program","call_id":"c","arguments":"{\"x\":1}"}]`,
		`{"type":"web_search_call","id":"ws_1","status":"completed"},{"type":"function_call","call_id":"c","name":"n"}`: `[{"type":"web_search_call","id":"ws_1","status":"completed"},` +
			`{"type":"function_call","call_id":"c","name":"n","arguments":"{\"x\":1}"}]`,
	} {
		msgs, ok := parseAll(chat.OpenAIResponses, "["+posted+"]")
		if !ok || len(msgs) != 1 || len(msgs[0].Calls) != 1 {
			t.Fatalf("%s: %+v", posted, msgs)
		}
		if got := msgs[0].Edited(&plan.Edit{Arguments: []plan.Argument{{Call: 0, Text: `{"x":1}`}}}); string(got.Raw) != want {
			t.Errorf("%s becomes %s, want %s", posted, got.Raw, want)
		}
	}
}

// A required screenshot is replaced by one pixel.
func TestWithoutAScreen(t *testing.T) {
	msgs, ok := parseAll(chat.OpenAIResponses, `[{"type":"computer_call_output","call_id":"c","output":`+
		`{"type":"computer_screenshot","image_url":"data:image/png;base64,AAAA"}}]`)
	if !ok || msgs[0].Parts != plan.PartImage {
		t.Fatalf("%+v", msgs)
	}
	got := msgs[0].Edited(&plan.Edit{Strip: plan.PartImage})
	if !strings.Contains(string(got.Raw), chat.NoScreen) || strings.Contains(string(got.Raw), ",AAAA") || got.Images != 0 {
		t.Errorf("%s", got.Raw)
	}
}

// If a tool message of Chat Completions says that the call failed, every format says so, and the members that say it,
// which are Mneme's own, are not sent to a provider.
func TestFailedResults(t *testing.T) {
	for posted, failed := range map[string]bool{
		`"is_error":true`: true, `"status":"error"`: true, `"is_error":false,"status":"error"`: true,
		`"is_error":false`: false, `"status":"ok"`: false, `"is_error":null,"status":null`: false,
	} {
		msgs, ok := parseAll(chat.OpenAIChat, `[{"role":"tool","tool_call_id":"c","content":"no","type":"x",`+posted+`}]`)
		if !ok || msgs[0].IsError != failed {
			t.Errorf("%s: %+v", posted, msgs)
			continue
		}
		own := chat.Render(chat.OpenAIChat, &msgs[0], chat.Options{})
		if shown := string(own.Bytes); shown != `{"role":"tool","tool_call_id":"c","content":"no","type":"x"}` {
			t.Errorf("%s is shown as %s", posted, shown)
		}
		theirs := chat.Render(chat.AnthropicMessages, &msgs[0], chat.Options{})
		if strings.Contains(string(theirs.Bytes), `"is_error":true`) != failed {
			t.Errorf("%s is shown as %s", posted, theirs.Bytes)
		}
	}
	for _, posted := range []string{`"is_error":"yes"`, `"is_error":1`, `"status":5`} {
		if _, ok := parseAll(chat.OpenAIChat, `[{"role":"tool","tool_call_id":"c","content":"no",`+posted+`}]`); ok {
			t.Errorf("%s is taken", posted)
		}
	}
	// In the Responses format, status is the provider's.
	msgs, ok := parseAll(chat.OpenAIResponses,
		`[{"type":"function_call_output","call_id":"c","output":"x","status":"error"}]`)
	if !ok || msgs[0].IsError {
		t.Errorf("%+v", msgs)
	}
}
