package chat_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/chat/chattest"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// WithText must change the text and nothing else, in Raw as in the fields: parsing Raw again gives the same message.
func TestWithText(t *testing.T) {
	for _, tr := range transcripts {
		msgs, _ := parseAll(tr.format, tr.posted)
		for i := range msgs {
			for _, text := range []string{"", "new \"text\"", "two\nlines"} {
				changed := msgs[i].WithText(text)
				raw := "[" + string(changed.Raw) + "]"
				if tr.format == chat.OpenAIResponses {
					raw = string(changed.Raw)
				}
				if tr.format == chat.OpenAIResponses && msgs[i].Reasoning != "" && msgs[i].Text == "" && text != "" {
					continue // a message item now precedes the reasoning, so it would be parsed as two messages
				}
				again, ok := parseAll(tr.format, raw)
				if !ok || len(again) != 1 {
					t.Fatalf("%s is not one message", raw)
				}
				got := summary(&chat.Parsed{Message: again[0]})
				want := msgs[i]
				want.Text = text
				if w := summary(&chat.Parsed{Message: want}); got != w {
					t.Errorf("%s\ngot  %s\nwant %s", raw, got, w)
				}
			}
		}
	}
}

func TestWithTextKeepsBytes(t *testing.T) {
	for _, c := range []struct{ posted, want string }{
		{`{"role":"user", "content":"a","x":1.0}`, `{"role":"user", "content":"T","x":1.0}`},
		{`{"role":"user"}`, `{"role":"user","content":"T"}`},
		{
			`{"role":"user","content":[{"type":"image_url","image_url":"u"},{"type":"text","text":"a","y":2},` +
				`{"type":"text","text":"b"}]}`,
			`{"role":"user","content":[{"type":"image_url","image_url":"u"},{"type":"text","text":"T","y":2}]}`,
		},
		{
			`{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`,
			`{"role":"assistant","content":[{"type":"text","text":"T"}]}`,
		},
		{`{"role":"assistant","content":null,"refusal":"no"}`, `{"role":"assistant","content":"T","refusal":null}`},
	} {
		msgs, _ := parseAll(chat.OpenAIChat, "["+c.posted+"]")
		changed := msgs[0].WithText("T")
		if string(changed.Raw) != c.want {
			t.Errorf("got  %s\nwant %s", changed.Raw, c.want)
		}
		if string(msgs[0].Raw) != c.posted {
			t.Errorf("the original became %s", msgs[0].Raw)
		}
	}
}

func TestMarkdown(t *testing.T) {
	m := chat.Message{Role: plan.RoleTool, Kind: plan.KindResult, CallID: "c", Text: "plain text"}
	got := m.Markdown(chat.Call{ID: "c", Name: "search_knowledge_base",
		Arguments: `{"query":"API authentication methods"}`})
	want := "## Tool: search_knowledge_base\n\n**Input:**\n{\n  \"query\": \"API authentication methods\"\n}\n\n" +
		"**Output:**\nplain text"
	if got.Text != want || got.CallID != "c" {
		t.Errorf("got %q", got.Text)
	}
}

// Messages that Mneme creates must be valid in every format.
func TestMadeUpMessages(t *testing.T) {
	call := chat.Message{Role: plan.RoleAssistant, Kind: plan.KindCall, Delegation: "d",
		Calls: []chat.Call{{ID: "c", Name: "f"}}}
	question := chat.Message{Role: plan.RoleUser, Delegation: "d"}
	lost := chat.Unreadable(plan.RoleAssistant, plan.KindCall, []chat.Call{{ID: "c"}}, "")
	msgs := []chat.Message{
		question.Compressed(3, "a", "b"),
		chat.Unreadable(plan.RoleUser, plan.KindA2A, nil, ""),
		lost, chat.Unreadable(plan.RoleTool, plan.KindResult, nil, "c"),
		call, call.Unanswered(call.Calls[0]),
	}
	if got := msgs[0].Text; got != "[earlier question] (turn 3): a\nb" || msgs[0].Delegation != "d" {
		t.Errorf("compressed: %q of %q", got, msgs[0].Delegation)
	}
	if msgs[5].CallID != "c" || msgs[5].Delegation != "d" {
		t.Errorf("unanswered: %+v", msgs[5])
	}
	for _, f := range messageFormats {
		w := build(f, atoms(msgs), "", false)
		if err := chattest.Validate(f, w.Messages, w.System); err != nil {
			t.Errorf("%s: %v\n%s", f, err, w.Messages)
		}
	}
}

func TestEmpty(t *testing.T) {
	user := chat.Message{Role: plan.RoleUser, Text: "one two"}
	if empty := (&chat.Message{Role: plan.RoleUser, Text: " \n"}); !empty.Empty() || user.Empty() {
		t.Error("Empty is wrong")
	}
}
