package chat

import (
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// openai reads one message of a chat completion.
func (p *parser) openai(index int, o *object) *problem {
	r, done, bad := p.role(index, o, true)
	if done {
		return bad
	}
	m := Message{Role: r, Format: OpenAIChat, Raw: o.Raw}
	if bad = m.readOwn(o); bad != nil {
		return bad
	}
	if value := o.Get("name"); value != nil {
		if m.Name, bad = readString([]byte("name"), value); bad != nil {
			return bad
		}
	}
	var c content
	if bad = c.read(OpenAIChat, o.Get("content")); bad != nil {
		return bad
	}
	switch r {
	case plan.RoleTool:
		if m.CallID = o.Text("tool_call_id"); m.CallID == "" {
			return &problem{CodeMissingAnswerID, "a tool message needs tool_call_id, the id of the call it answers"}
		}
		m.Kind = plan.KindResult
	case plan.RoleAssistant:
		if m.Reasoning == "" {
			m.Reasoning = o.Text("reasoning_content")
		}
		c.addText(m.refusal(o))
		if o.Get("audio") != nil {
			c.parts |= plan.PartAudio
		}
		if bad = m.readToolCalls(o.Get("tool_calls")); bad != nil {
			return bad
		}
	}
	m.setContent(&c)
	if bad = m.checkA2A(o); bad != nil {
		return bad
	}
	p.msgs = append(p.msgs, Parsed{Message: m, Index: index})
	return nil
}

func (m *Message) readToolCalls(value []byte) *problem {
	if value == nil {
		return nil
	}
	if !rawjson.IsArray(value) {
		return &problem{CodeMalformed, "tool_calls must be an array or null"}
	}
	for from, to := range rawjson.Elements(value) {
		call, bad := readObject(value[from:to])
		if bad != nil {
			return bad.in("tool_calls")
		}
		// A custom tool has input instead of arguments.
		kind, arguments := "function", "arguments"
		if call.Text("type") == "custom" {
			kind, arguments = "custom", "input"
		}
		body := call.Get(kind)
		if body == nil {
			body = []byte("{}") // it has no name, which addCall rejects
		}
		function, bad := readObject(body)
		if bad != nil {
			return bad.in(kind)
		}
		args, ok := rawjson.String(function.Get(arguments))
		if !ok && function.Get(arguments) != nil {
			return &problem{CodeMalformed, "a call's " + arguments + " must be a string, also where they are JSON"}
		}
		if bad = m.addCall(Call{ID: call.Text("id"), Name: function.Text("name"), Arguments: args}); bad != nil {
			return bad
		}
	}
	return m.checkCalls()
}

// in adds the name of the field that a problem is about.
func (b *problem) in(name string) *problem {
	return &problem{b.code, name + ": " + b.detail}
}
