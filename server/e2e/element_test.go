package e2e

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// element is the smallest unit that every format has: a text, an image, a call, a result, or a reasoning item.
type element struct {
	kind string // text, image, call, result, reasoning
	role string // user, assistant, tool, system
	id   string // of calls and results
	name string // of calls
	text string // of texts and results; a call's arguments; an image's URL
	raw  json.RawMessage
	at   int // index of the window's message
}

// flatten splits a window's messages into elements; a message without content is one empty text.
func flatten(format hard.Format, messages []json.RawMessage) (out []element, fault string) {
	for i, raw := range messages {
		var part []element
		var err error
		switch format {
		case hard.Anthropic:
			part, err = anthropicElements(raw)
		case hard.Responses:
			part, err = responsesElements(raw)
		default:
			part, err = chatElements(raw)
		}
		if err != nil {
			return nil, sprintf("message %d is unreadable: %v: %s", i, err, raw)
		}
		for _, e := range part {
			e.at = i
			out = append(out, e)
		}
	}
	return out, ""
}

// contentPart covers the parts of all three formats.
type contentPart struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ImageURL  json.RawMessage `json:"image_url"`
	Source    json.RawMessage `json:"source"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// contents parses a content member: null, a string, or a list of parts.
func contents(role string, content json.RawMessage) ([]element, error) {
	var text string
	switch {
	case len(content) == 0 || string(content) == "null":
		return []element{{kind: "text", role: role}}, nil
	case content[0] == '"':
		err := json.Unmarshal(content, &text)
		return []element{{kind: "text", role: role, text: text}}, err
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(content, &raws); err != nil {
		return nil, err
	}
	var out []element
	for _, raw := range raws {
		var p contentPart
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, err
		}
		switch p.Type {
		case "text", "input_text", "output_text":
			out = append(out, element{kind: "text", role: role, text: p.Text, raw: raw})
		case "image_url", "input_image", "image":
			out = append(out, element{kind: "image", role: role, text: string(p.ImageURL) + string(p.Source), raw: raw})
		case "tool_use":
			out = append(out, element{kind: "call", role: role, id: p.ID, name: p.Name, text: string(p.Input),
				raw: raw})
		case "tool_result":
			inner, err := contents("tool", p.Content)
			if err != nil {
				return nil, err
			}
			out = append(out, element{kind: "result", role: "tool", id: p.ToolUseID, text: joinTexts(inner), raw: raw})
		default:
			return nil, errorf("a part of type %q", p.Type)
		}
	}
	if len(out) == 0 {
		out = append(out, element{kind: "text", role: role})
	}
	return out, nil
}

func joinTexts(list []element) string {
	var texts []string
	for _, e := range list {
		texts = append(texts, e.text)
	}
	return strings.Join(texts, "\n")
}

// chatMessage is a message of openai.chat.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func chatElements(raw json.RawMessage) ([]element, error) {
	var m chatMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	out, err := contents(m.Role, m.Content)
	if err != nil {
		return nil, err
	}
	if m.Role == "tool" {
		return []element{{kind: "result", role: "tool", id: m.ToolCallID, text: joinTexts(out), raw: raw}}, nil
	}
	if len(m.ToolCalls) > 0 && len(out) == 1 && out[0].kind == "text" && out[0].text == "" {
		out = nil // calls alone
	}
	for _, c := range m.ToolCalls {
		out = append(out, element{kind: "call", role: m.Role, id: c.ID, name: c.Function.Name,
			text: c.Function.Arguments})
	}
	out[0].raw = raw
	return out, nil
}

func anthropicElements(raw json.RawMessage) ([]element, error) {
	var m chatMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	return contents(m.Role, m.Content)
}

// responseItem covers the items of openai.responses.
type responseItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

func responsesElements(raw json.RawMessage) ([]element, error) {
	var m responseItem
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	switch m.Type {
	case "", "message":
		out, err := contents(m.Role, m.Content)
		if err == nil {
			for i := range out {
				out[i].raw = nil
			}
			out[0].raw = raw // the item as a whole
		}
		return out, err
	case "function_call":
		return []element{{kind: "call", role: "assistant", id: m.CallID, name: m.Name, text: m.Arguments, raw: raw}},
			nil
	case "function_call_output":
		out, err := contents("tool", m.Output)
		return []element{{kind: "result", role: "tool", id: m.CallID, text: joinTexts(out), raw: raw}}, err
	case "reasoning":
		return []element{{kind: "reasoning", role: "assistant", raw: raw}}, nil
	default:
		return nil, errorf("an item of type %q", m.Type)
	}
}

// expected splits a posted message into elements, whatever its format.
func expected(m *hard.Message) []element {
	if m.Role == "tool" {
		var texts []element
		for _, p := range m.Parts {
			texts = append(texts, element{text: p.Text})
		}
		return []element{{kind: "result", role: "tool", id: m.CallID, text: joinTexts(texts)}}
	}
	var out []element
	for _, p := range m.Parts {
		if p.Image != "" {
			out = append(out, element{kind: "image", role: m.Role, text: p.Image})
		} else {
			out = append(out, element{kind: "text", role: m.Role, text: p.Text})
		}
	}
	for _, c := range m.Calls {
		out = append(out, element{kind: "call", role: m.Role, id: c.ID, name: c.Name, text: c.Arguments})
	}
	if len(out) == 0 {
		out = append(out, element{kind: "text", role: m.Role})
	}
	return out
}

// ownFields are members of a message that the server reads and leaves out of windows.
var ownFields = []string{
	`"agent"`, `"delegation_id"`, `"reasoning"`, `"tags"`, `"metadata"`, `"created_at"`, `"from_agent"`, `"to_agent"`,
}

// stripped returns a posted object without the server's own fields, with every other byte unchanged.
func stripped(posted json.RawMessage, a2a bool) []byte {
	d := json.NewDecoder(bytes.NewReader(posted))
	d.Token()
	out := []byte{'{'}
	for d.More() {
		from := d.InputOffset()
		key, _ := d.Token()
		var value json.RawMessage
		d.Decode(&value)
		text := bytes.TrimLeft(posted[from:d.InputOffset()], ", \t\r\n")
		if own := strings.Contains(strings.Join(ownFields, " "), `"`+key.(string)+`"`); own || a2a && key == "type" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, text...)
	}
	return append(out, '}')
}
