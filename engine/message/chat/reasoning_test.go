package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// OpenAI binds encrypted reasoning to the id of its item. Call ids are made unique, but the ids of reasoning do not
// change, even if they repeat.
func TestIDsOfReasoningStay(t *testing.T) {
	reasoning := func(id string) string {
		return `{"type":"reasoning","id":"` + id + `","summary":[],"encrypted_content":"x ` + id + `"}`
	}
	const call = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
	const output = `{"type":"function_call_output","call_id":"c","output":"r"}`
	posted := []string{`{"role":"user","content":"q"}`, reasoning("rs_1"), call, output, reasoning("rs_2"), call, output,
		reasoning("rs_2"), call, output}
	var items []json.RawMessage
	for _, p := range posted {
		items = append(items, json.RawMessage(p))
	}
	msgs, _, bad := chat.Parse(chat.OpenAIResponses, items)
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	var b chat.Builder
	b.Reset(chat.OpenAIResponses, nil, render.SystemText(""))
	for i := range msgs {
		fr := chat.Render(chat.OpenAIResponses, &msgs[i].Message, chat.Options{})
		b.Add(&fr, uint64(i))
	}
	window := string(b.Finish().Messages)
	if strings.Count(window, reasoning("rs_1")) != 1 || strings.Count(window, reasoning("rs_2")) != 2 ||
		strings.Count(window, `"call_id":"c"`) != 2 {
		t.Error(window)
	}
}
