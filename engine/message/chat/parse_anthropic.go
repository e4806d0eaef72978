package chat

import (
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// anthropic reads one message of the Messages API.
func (p *parser) anthropic(index int, o *object) *problem {
	r, done, bad := p.role(index, o, false)
	if done {
		return bad
	}
	m := Message{Role: r, Format: AnthropicMessages, Raw: o.Raw}
	if bad = m.readOwn(o); bad != nil {
		return bad
	}
	if value := o.Get("content"); r == plan.RoleUser && rawjson.IsArray(value) {
		return p.userBlocks(index, &m, o, value)
	} else if rawjson.IsArray(value) {
		bad = m.assistantBlocks(value)
	} else {
		var c content
		bad = c.read(AnthropicMessages, value)
		m.setContent(&c)
	}
	if bad == nil {
		bad = m.checkA2A(o)
	}
	if bad == nil {
		p.msgs = append(p.msgs, Parsed{Message: m, Index: index})
	}
	return bad
}

// assistantBlocks reads text, thinking and tool_use blocks, which together are one message.
func (m *Message) assistantBlocks(value []byte) *problem {
	var c, thinking content
	for from, to := range rawjson.Elements(value) {
		b, bad := readPart(AnthropicMessages, value[from:to])
		if bad != nil {
			return bad
		}
		switch b.kind {
		case partCall:
			if bad = m.addCall(toolUse(&b)); bad != nil {
				return bad
			}
		case partThinking:
			thinking.addText(b.o.Text("thinking"))
			m.Parts |= plan.PartThinking
		case partResult:
			return &problem{CodeMisplacedBlock, "tool_result belongs in a message of role user"}
		default:
			m.Compacts = m.Compacts || compacts(&b)
			c.add(&b)
		}
	}
	m.setContent(&c)
	m.addReasoning(&thinking)
	return m.checkCalls()
}

// compacts reports whether a block is a signed compaction. It replaces all messages before it, and must come first.
func compacts(b *part) bool { return b.typ == "compaction" && b.o.Get("signature") != nil }

// toolUse reads a tool_use block. A missing input is {}.
func toolUse(b *part) Call {
	input := "{}"
	if given := b.o.Get("input"); given != nil {
		input = string(given)
	}
	return Call{ID: b.o.Text("id"), Name: b.o.Text("name"), Arguments: input}
}

// maxCopied limits the bytes that are copied when the results of one posted message become separate messages.
const maxCopied = 8 << 20

// userBlocks reads a user's blocks. Each tool_result becomes a tool message. All other blocks become one user message
// after these.
func (p *parser) userBlocks(index int, m *Message, o *object, value []byte) *problem {
	var c content
	var rest [][]byte
	var results []part
	for from, to := range rawjson.Elements(value) {
		b, bad := readPart(AnthropicMessages, value[from:to])
		if bad != nil {
			return bad
		}
		switch b.kind {
		case partCall:
			return &problem{CodeMisplacedBlock, "tool_use belongs in a message of role assistant"}
		case partResult:
			results = append(results, b)
		default:
			rest = append(rest, b.o.Raw)
			c.add(&b)
		}
	}
	whole := len(results) == 0 || len(results) == 1 && len(rest) == 0
	if !whole {
		p.copied += len(results) * (len(o.Raw) - len(value))
	}
	if p.copied > maxCopied {
		return &problem{CodeTooLarge, "each result is stored with the message's other fields, which are too long " +
			"for that; post the results without them"}
	}
	answered := make(map[string]bool, len(results))
	msgs := make([]Parsed, 0, len(results)+1)
	for i := range results {
		tool, bad := toolResult(*m, &results[i])
		if bad == nil && answered[tool.CallID] {
			bad = duplicateCall(tool.CallID)
		}
		if bad == nil {
			bad = tool.checkA2A(o)
		}
		if bad != nil {
			return bad
		}
		answered[tool.CallID] = true
		if !whole {
			tool.Raw = o.With("content", rawjson.ArrayOf(results[i].o.Raw))
		}
		msgs = append(msgs, Parsed{Message: tool, Index: index})
	}
	if len(rest) > 0 || len(results) == 0 {
		m.setContent(&c)
		if bad := m.checkA2A(o); bad != nil {
			return bad
		}
		if !whole {
			m.Raw = o.With("content", rawjson.ArrayOf(rest...))
		}
		msgs = append(msgs, Parsed{Message: *m, Index: index})
	}
	p.msgs = append(p.msgs, msgs...)
	return nil
}

// toolResult makes a tool message from the message that contained the block.
func toolResult(m Message, b *part) (Message, *problem) {
	m.Role, m.Kind = plan.RoleTool, plan.KindResult
	if m.CallID = b.o.Text("tool_use_id"); m.CallID == "" {
		return m, &problem{CodeMissingAnswerID, "tool_result needs tool_use_id, the id of the call it answers"}
	}
	m.IsError = string(b.o.Get("is_error")) == "true"
	var c content
	if bad := c.read(AnthropicMessages, b.o.Get("content")); bad != nil {
		return m, bad.in("tool_result")
	}
	m.setContent(&c)
	return m, nil
}

// addReasoning keeps a provider's reasoning, unless Mneme's own field reasoning is set.
func (m *Message) addReasoning(c *content) {
	if m.Reasoning == "" {
		m.Reasoning = c.text()
	}
}
