package chat

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// WithText returns the message with its text replaced. Everything else stays, such as role, ids, calls and images. Raw
// is rebuilt with the same changes.
func (m *Message) WithText(text string) Message {
	out := *m
	out.Text = text
	out.bare = false
	if m.Raw == nil || text == m.Text {
		return out
	}
	switch {
	case m.Format == OpenAIResponses:
		out.Raw = itemsWithText(m.Raw, text)
	default:
		o, _ := readObject(m.Raw)
		value := o.Get("content")
		if m.Format == AnthropicMessages && m.Role == plan.RoleTool {
			value = resultWithText(value, text)
		} else {
			value = contentWithText(m.Format, value, text, "text")
		}
		out.Raw = o.With("content", value)
		if m.refusal(&o) != "" {
			// A refusal is part of the replaced text.
			changed, _ := readObject(out.Raw)
			out.Raw = changed.With("refusal", []byte("null"))
		}
	}
	return out
}

// contentWithText sets the text of a content. A string is replaced by the text. In an array, the first text part gets
// the text, the other text parts are removed, and all else stays. If there is no text part, one of type typ is added.
func contentWithText(f Format, value []byte, text, typ string) []byte {
	if !rawjson.IsArray(value) {
		return rawjson.AppendString(nil, text)
	}
	var parts [][]byte
	placed := false
	for from, to := range rawjson.Elements(value) {
		p, _ := readPart(f, value[from:to])
		switch {
		case p.kind != partText:
			parts = append(parts, p.o.Raw)
		case !placed && p.typ != "refusal":
			parts = append(parts, p.o.With("text", rawjson.AppendString(nil, text)))
			placed = true
		}
	}
	if !placed {
		parts = append([][]byte{appendTextPart(nil, typ, text)}, parts...)
	}
	return rawjson.ArrayOf(parts...)
}

// resultWithText sets the text inside the one tool_result of an Anthropic message.
func resultWithText(blocks []byte, text string) []byte {
	var out [][]byte
	for from, to := range rawjson.Elements(blocks) {
		b, _ := readPart(AnthropicMessages, blocks[from:to])
		out = append(out, b.o.With("content", contentWithText(AnthropicMessages, b.o.Get("content"), text, "text")))
	}
	return rawjson.ArrayOf(out...)
}

// itemsWithText sets the text of a message made of Responses items: the first message item gets it.
func itemsWithText(raw []byte, text string) []byte {
	var out [][]byte
	placed := false
	for from, to := range rawjson.Elements(raw) {
		o, _ := readObject(raw[from:to])
		item := o.Raw
		switch kind := itemKind(&o); {
		case IsOutputItem(kind):
			item = outputWithText(kind, &o, text)
			placed = true
		case kind != itemMessage && kind != a2aType:
		default:
			shown := text
			if placed {
				shown = ""
			}
			typ := "input_text"
			if o.Text("role") == "assistant" {
				typ = "output_text"
			}
			item = o.With("content", contentWithText(OpenAIResponses, o.Get("content"), shown, typ))
			placed = true
		}
		out = append(out, item)
	}
	if !placed && text != "" {
		// It is put first, so that a reasoning item stays next to its call.
		item := append(rawjson.AppendString(appendRole(nil, "assistant"), text), '}')
		out = append([][]byte{item}, out...)
	}
	return rawjson.ArrayOf(out...)
}

// Markdown returns a tool's message whose text shows the call's input and the result as output, under the tool's name.
func (m *Message) Markdown(call Call) Message {
	out := m.WithText("## Tool: " + call.Name + "\n\n**Input:**\n" + pretty(call.Arguments) +
		"\n\n**Output:**\n" + pretty(m.Text))
	out.bare = true
	return out
}

// pretty indents JSON. It returns any other text unchanged.
func pretty(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(strings.TrimSpace(text)), "", "  ") != nil {
		return text
	}
	return b.String()
}

// Question returns a user message that represents an earlier turn, which its text names. The flat text shows no
// speaker.
func Question(text string) Message {
	return Message{Role: plan.RoleUser, Kind: plan.KindChat, Text: text, bare: true}
}

// Said returns a system text as a user message. It is needed in Anthropic's format, where the system prompt precedes
// all messages and must be the same in each window.
func Said(f Format, text string) Fragment {
	m := Question(text)
	return Render(f, &m, Options{})
}

// Compressed returns the user message that replaces a turn by its questions. Agent, delegation and time are those of m,
// the newest question.
func (m *Message) Compressed(turn uint32, questions ...string) Message {
	q := Question(plan.EarlierQuestion(turn) + strings.Join(questions, "\n"))
	q.Agent, q.Delegation, q.CreatedAt = m.Agent, m.Delegation, m.CreatedAt
	return q
}

// UnansweredText is the text of the result that replaces a missing one.
const UnansweredText = "[no result: the call was not answered]"

// Unanswered returns the result that replaces a missing one: the answer to m's call.
func (m *Message) Unanswered(call Call) Message {
	return Message{Role: plan.RoleTool, Kind: plan.KindResult, Text: UnansweredText,
		CallID: call.ID, Agent: m.Agent, Delegation: m.Delegation, CreatedAt: m.CreatedAt}
}

// Unreadable returns a replacement for a message whose stored body is damaged. calls and callID come from its header.
func Unreadable(role plan.Role, kind plan.Kind, calls []Call, callID string) Message {
	m := Message{Role: role, Kind: kind, Text: "[message unreadable: its stored body is damaged]", CallID: callID}
	for _, c := range calls {
		if c.Name == "" {
			c.Name = "unknown" // no format accepts a call without a name
		}
		m.Calls = append(m.Calls, c)
	}
	if kind == plan.KindA2A {
		m.Kind = plan.KindChat // sender and recipient are lost with the body
	}
	return m
}
