package chattest_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/chat/chattest"
)

const (
	openai    = chat.OpenAIChat
	anthropic = chat.AnthropicMessages
	responses = chat.OpenAIResponses

	user  = `{"role":"user","content":"q"}`
	reply = `{"role":"assistant","content":"a"}`

	call = `{"role":"assistant","content":null,"tool_calls":[` +
		`{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	result = `{"role":"tool","tool_call_id":"c","content":"r"}`

	use      = `{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]}`
	answered = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}`

	item      = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
	output    = `{"type":"function_call_output","call_id":"c","output":"r"}`
	reasoning = `{"type":"reasoning","id":"r","summary":[]}`
)

func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		format   chat.Format
		messages string
		opts     []chattest.Option
	}{
		{openai, ``, nil},
		{openai, `{"role":"system","content":"s"},` + user + `,` + call + `,` + result + `,` + reply, nil},
		{openai, call + `,` + result + `,` + call + `,` + result, nil}, // ids may be reused
		{openai, user + `,` + call, []chattest.Option{chattest.AllowOpenTail}},
		{anthropic, ``, nil},
		{anthropic, user + `,` + use + `,` + answered + `,` + reply, nil},
		{anthropic, user + `,` + use, []chattest.Option{chattest.AllowOpenTail}},
		{responses, user + `,` + reasoning + `,` + item + `,` + output + `,` + reasoning + `,` + reply, nil},
		{responses, item + `,` + output + `,` + item + `,` + output, nil},
		{responses, item, []chattest.Option{chattest.AllowOpenTail}},
	} {
		if err := chattest.Validate(c.format, []byte("["+c.messages+"]"), "", c.opts...); err != nil {
			t.Errorf("%s %s: %v", c.format, c.messages, err)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		format   chat.Format
		messages string
		opts     []chattest.Option
	}{
		{openai, `7`, nil},
		{openai, `{"role":"user","content":7}`, nil},
		{openai, `{"role":"user","content":[{"type":"text"}]}`, nil},
		{openai, `{"role":"user","content":"a","content":"b"}`, nil},
		{openai, `{"role":"user","content":"a","agent":"own"}`, nil},
		{openai, `{"role":"user","content":"a","type":"a2a"}`, nil},
		{openai, `{"role":"nobody","content":"a"}`, nil},
		{openai, user + `,` + call, nil},
		{openai, call + `,` + user + `,` + result, nil},
		{openai, call + `,` + user, []chattest.Option{chattest.AllowOpenTail}}, // open, but not in the tail
		{openai, call + `,` + result + `,` + result, nil},
		{openai, result, nil},
		{openai, `{"role":"assistant","tool_calls":[{"id":"c","function":{}}]}`,
			[]chattest.Option{chattest.AllowOpenTail}},
		{anthropic, reply, nil},
		{anthropic, user + `,` + user, nil},
		{anthropic, user + `,` + reply + `,` + reply, nil},
		{anthropic, `{"role":"user","content":""}`, nil},
		{anthropic, `{"role":"user","content":[]}`, nil},
		{anthropic, `{"role":"user","content":[{"type":"text","text":" "}]}`, nil},
		{anthropic, user + `,` + use, nil},
		{anthropic, user + `,` + use + `,` + user, nil},
		{anthropic, user + `,` + use + `,` + answered + `,` + use + `,` + answered, nil}, // the id is reused
		{anthropic, user + `,` + reply + `,` + answered, nil},
		{anthropic, user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a.b","name":"f","input":{}}]}`,
			[]chattest.Option{chattest.AllowOpenTail}},
		{anthropic, user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":[]}]}`,
			[]chattest.Option{chattest.AllowOpenTail}},
		{anthropic, user + `,` + use +
			`,{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"c"}]}`, nil},
		{anthropic, user + `,` + use +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text",` +
			`"text":""}]}]}`, nil},
		{responses, `{"type":"a_new_type"}`, nil},
		{responses, item, nil},
		{responses, output, nil},
		{responses, output + `,` + item, nil},
		{responses, item + `,` + user + `,` + output, nil},
		{responses, item + `,` + item + `,` + output, nil},
		{responses, reasoning, nil},
		{responses, reasoning + `,` + user, nil},
		{chat.Text, user, nil},
	} {
		if chattest.Validate(c.format, []byte("["+c.messages+"]"), "", c.opts...) == nil {
			t.Errorf("%s accepts %s", c.format, c.messages)
		}
	}
	if chattest.Validate(openai, []byte("["+user+"]"), "a prompt") == nil {
		t.Error("a system prompt beside OpenAI's messages is accepted")
	}
}
