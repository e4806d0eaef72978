package chat_test

import (
	"encoding/json"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// A turn posted in one format becomes a window in another.
func Example() {
	var posted []json.RawMessage
	if err := json.Unmarshal([]byte(`[
		{"role":"user","content":"Is it raining?","agent":"main"},
		{"role":"assistant","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"at\":\"Oslo\"}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"rain"},
		{"role":"assistant","content":"Yes."}]`), &posted); err != nil {
		panic(err)
	}
	msgs, _, _ := chat.Parse(chat.OpenAIChat, posted)

	var b chat.Builder
	b.Reset(chat.AnthropicMessages, nil, render.SystemText("Be brief."))
	for i := range msgs {
		fr := chat.Render(chat.AnthropicMessages, &msgs[i].Message, chat.Options{})
		b.Add(&fr, uint64(i+1))
	}
	w := b.Finish()
	var list []json.RawMessage
	if err := json.Unmarshal(w.Messages, &list); err != nil {
		panic(err)
	}
	fmt.Println(w.System)
	for _, m := range list {
		fmt.Printf("%s\n", m)
	}
	// Output:
	// Be brief.
	// {"role":"user","content":[{"type":"text","text":"Is it raining?"}]}
	// {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"weather","input":{"at":"Oslo"}}]}
	// {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"rain"}]}
	// {"role":"assistant","content":[{"type":"text","text":"Yes."}]}
}
