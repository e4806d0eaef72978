package chat

import (
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// openai reads one message of a chat completion.
func (p *parser) openai(index int, o *object) *problem {
	r, done, bad := plan.RoleTool, false, (*problem)(nil)
	function := o.Text("role") == functionRole
	if !function {
		r, done, bad = p.role(index, o, true)
	}
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
		m.CallID = o.Text("tool_call_id")
		if function {
			if m.Name == "" {
				return &problem{CodeMissingAnswerID, "a function message needs name, that of the function whose result it is"}
			}
			m.CallID = functionID(m.Name)
		}
		if m.CallID == "" {
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
		if bad = m.readFunctionCall(functionCallOf(o)); bad != nil {
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

// The predecessors of tool calls in Chat Completions: an assistant's message has one function_call without an id, and the
// message that follows, of the role function, has its result.
const (
	functionCall = "function_call"
	functionRole = "function"
)

// functionCallOf returns the function_call of a message, or nil if it makes tool calls, which take its place.
func functionCallOf(o *rawjson.Object) []byte {
	if calls := o.Get("tool_calls"); calls != nil {
		for range rawjson.Elements(calls) {
			return nil
		}
	}
	return o.Get(functionCall)
}

// functionID is the id of a function_call and of its result, which have only the function's name in common.
func functionID(name string) string { return "function_" + name }

func (m *Message) readFunctionCall(value []byte) *problem {
	if value == nil {
		return nil
	}
	call, bad := readObject(value)
	if bad != nil {
		return bad.in(functionCall)
	}
	name := call.Text("name")
	return m.addCall(Call{ID: functionID(name), Name: name, Arguments: call.Text("arguments")})
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
