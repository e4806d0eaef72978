package chat_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// TestSameFormatIsByteEqual checks that an OpenAI window is the posted bytes without Mneme's own fields.
func TestSameFormatIsByteEqual(t *testing.T) {
	posted := []string{
		`{"role":"user","content":"hi"}`,
		"{ \"content\" : [ {\"type\":\"text\",\"text\":\"\\u0068i\"} , {\"type\":\"x-new\",\"deep\":[{}]} " +
			"],\n\t\"role\":\"user\" }",
		`{"role":"assistant","content":null,"tool_calls":[` +
			`{"id":"a.b","type":"function","function":{"name":"f","arguments":"{"}}],"x":1.50e3}`,
		`{"role":"tool","tool_call_id":"a.b","content":"\ud83d\ude00<&>\/"}`,
	}
	var b chat.Builder
	b.Reset(chat.OpenAIChat, nil, render.SystemText(""))
	for _, p := range posted {
		msgs, ok := parseAll(chat.OpenAIChat, "["+p+"]")
		if !ok {
			t.Fatalf("does not parse: %s", p)
		}
		fr := chat.Render(chat.OpenAIChat, &msgs[0], chat.Options{})
		b.Add(&fr, 1)
	}
	if got, want := b.Finish().Messages, "["+strings.Join(posted, ",")+"]"; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzOwnFieldsAreCut checks that a message posted with own fields renders to the same bytes as without them.
func FuzzOwnFieldsAreCut(f *testing.F) {
	f.Add(`"x":1`, uint8(0))
	f.Add(` "y" : [ "}" , {"agent":"kept, it is not the message's own"} ] , "z":null`, uint8(2))
	f.Add(`"name":"n","e":"\\\""`, uint8(7))
	f.Fuzz(func(t *testing.T, members string, where uint8) {
		const own = `"agent":"a","ta\u0067s":["t"],"metadata":{"k":[1]},"type":"a\u0032a","from_agent":"b",` +
			`"to_agent":"c"`
		members = strings.TrimSpace(members) // white space before a comma is removed with the next member
		clean := `{"role":"user",` + members + `}`
		var o map[string]json.RawMessage
		if json.Unmarshal([]byte(clean), &o) != nil {
			t.Skip()
		}
		var with string
		switch where % 3 {
		case 0:
			with = `{` + own + `,"role":"user",` + members + `}`
		case 1:
			with = `{"role":"user",` + own + `,` + members + `}`
		case 2:
			with = `{"role":"user",` + members + `,` + own + `}`
		}
		msgs, ok := parseAll(chat.OpenAIChat, "["+clean+"]")
		if !ok || msgs[0].Agent != "" {
			t.Skip()
		}
		m := msgs[0]
		fr := chat.Render(chat.OpenAIChat, &m, chat.Options{})
		m.Raw = []byte(with)
		got := chat.Render(chat.OpenAIChat, &m, chat.Options{})
		if !bytes.Equal(window(chat.OpenAIChat, &got), window(chat.OpenAIChat, &fr)) {
			t.Fatalf("from %s\ngot  %s\nwant %s", with, window(chat.OpenAIChat, &got), window(chat.OpenAIChat, &fr))
		}
	})
}

// window returns a window of one fragment.
func window(f chat.Format, fr *chat.Fragment) []byte {
	var b chat.Builder
	b.Reset(f, nil, render.SystemText(""))
	b.Add(fr, 1)
	w := b.Finish()
	if f == chat.Text {
		return w.Text
	}
	return w.Messages
}
