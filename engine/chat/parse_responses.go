package chat

import "github.com/seed-0906e6bc/mneme/engine/plan"

// The types of Responses items that are stored.
const (
	itemMessage   = "message"
	itemCall      = "function_call"
	itemOutput    = "function_call_output"
	itemReasoning = "reasoning"
)

// group gathers the Responses items that become one assistant message: its text, its calls, and the reasoning before
// each of them.
type group struct {
	msg       Parsed
	content   content
	reasoning content
	items     [][]byte
	held      []heldReasoning // they wait for the item that they belong to
}

type heldReasoning struct {
	msg     Message // its own fields
	index   int
	raw     []byte
	summary content
}

// item reads one Responses item.
func (p *parser) item(index int, o *object) (bad *problem) {
	m := Message{Format: OpenAIResponses}
	if bad = m.readOwn(o); bad != nil {
		return bad
	}
	var kind string
	if value := o.get("type"); value == nil {
		kind = itemMessage
	} else {
		kind, _ = decodeString(value)
	}
	switch kind {
	case itemReasoning:
		p.group.held = append(p.group.held, heldReasoning{m, index, o.raw, reasoningText(o)})
		return nil
	case itemMessage, a2aType:
		return p.messageItem(index, m, o)
	case itemCall:
		return p.callItem(index, m, o)
	case itemOutput:
		return p.outputItem(index, m, o)
	}
	return &problem{CodeUnknownItem, "items of type " + quoteValue(o.get("type")) +
		" cannot be stored; send message, function_call, function_call_output or reasoning"}
}

func (p *parser) messageItem(index int, m Message, o *object) *problem {
	r, done, bad := p.role(index, o, false)
	if bad != nil {
		return bad
	}
	if done {
		p.closeGroup()
		return nil
	}
	var c content
	if bad = c.read(OpenAIResponses, o.get("content")); bad != nil {
		return bad
	}
	m.Role = r
	if bad = m.checkA2A(o); bad != nil {
		return bad
	}
	if r == plan.RoleAssistant && m.Kind != plan.KindA2A {
		return p.join(index, m, o.raw, c)
	}
	p.closeGroup()
	m.setContent(&c)
	m.Raw = arrayOf(o.raw)
	p.msgs = append(p.msgs, Parsed{Message: m, Index: index})
	return nil
}

func (p *parser) callItem(index int, m Message, o *object) *problem {
	args, ok := decodeString(o.get("arguments"))
	if !ok && o.get("arguments") != nil {
		return &problem{CodeMalformed, "a call's arguments must be a string, also where they are JSON"}
	}
	m.Role = plan.RoleAssistant
	if bad := m.addCall(Call{ID: o.text("call_id"), Name: o.text("name"), Arguments: args}); bad != nil {
		return bad
	}
	return p.join(index, m, o.raw, content{})
}

func (p *parser) outputItem(index int, m Message, o *object) *problem {
	p.closeGroup()
	m.Role, m.Kind = plan.RoleTool, plan.KindResult
	if m.CallID = o.text("call_id"); m.CallID == "" {
		return &problem{CodeMissingAnswerID, "a function_call_output needs call_id, the id of the call it answers"}
	}
	var c content
	if bad := c.read(OpenAIResponses, o.get("output")); bad != nil {
		return bad.in("output")
	}
	m.setContent(&c)
	m.Raw = arrayOf(o.raw)
	p.msgs = append(p.msgs, Parsed{Message: m, Index: index})
	return nil
}

// join adds an assistant's item, with the reasoning held for it, to the group, or begins a new group. Calls that follow
// each other are parallel and stay together. A second message, or reasoning behind a message, begins a new group. So
// does an item of another agent or delegation, because a viewer may see one and not the other.
func (p *parser) join(index int, m Message, raw []byte, c content) *problem {
	g := &p.group
	for i := range g.held {
		h := &g.held[i].msg
		if h.Agent != "" && h.Agent != m.Agent || h.Delegation != "" && h.Delegation != m.Delegation {
			g.held = nil
			return &problem{CodeInvalidField,
				"agent and delegation_id of a reasoning item must be those of the item after it"}
		}
	}
	if len(g.items) > 0 {
		own := &g.msg.Message
		parallel := len(own.Calls) > 0 || len(m.Calls) > 0 && len(g.held) == 0
		if !parallel || own.Agent != m.Agent || own.Delegation != m.Delegation {
			p.emitGroup()
		}
	}
	if len(g.items) == 0 {
		g.msg = Parsed{Message: Message{Role: m.Role, Kind: m.Kind, Agent: m.Agent, Delegation: m.Delegation,
			Format: m.Format}, Index: index}
		if len(g.held) > 0 {
			g.msg.Index = g.held[0].index
		}
	}
	for i := range g.held {
		h := &g.held[i]
		g.msg.fillOwn(&h.msg)
		g.reasoning.texts = append(g.reasoning.texts, h.summary.texts...)
		g.items = append(g.items, h.raw)
	}
	g.held = nil
	g.msg.fillOwn(&m)
	g.items = append(g.items, raw)
	g.content.texts = append(g.content.texts, c.texts...)
	g.content.images += c.images
	if len(m.Calls) > 0 {
		g.msg.Calls = append(g.msg.Calls, m.Calls...)
		g.msg.Kind = plan.KindCall
	}
	return nil
}

// fillOwn takes those of Mneme's own fields that this message lacks from another item of the same message.
func (m *Message) fillOwn(from *Message) {
	if m.Reasoning == "" {
		m.Reasoning = from.Reasoning
	}
	if m.Tags == nil {
		m.Tags = from.Tags
	}
	if m.Metadata == nil {
		m.Metadata = from.Metadata
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = from.CreatedAt
	}
}

// closeGroup ends the group. Reasoning that still waits for its item is an error.
func (p *parser) closeGroup() {
	for _, h := range p.group.held {
		p.fail(h.index, &problem{CodeReasoningAlone,
			"a reasoning item must be followed by the assistant message or function_call that it belongs to"})
	}
	p.group.held = nil
	p.emitGroup()
}

// emitGroup makes a message of the group's items.
func (p *parser) emitGroup() {
	g := &p.group
	if len(g.items) == 0 {
		return
	}
	g.msg.setContent(&g.content)
	g.msg.addReasoning(&g.reasoning)
	g.msg.Raw = arrayOf(g.items...)
	if bad := g.msg.checkCalls(); bad != nil {
		p.fail(g.msg.Index, bad)
	}
	p.msgs = append(p.msgs, g.msg)
	p.group = group{held: g.held}
}

// reasoningText is the readable text of a reasoning item: its summary and its content.
func reasoningText(o *object) (c content) {
	for _, name := range []string{"summary", "content"} {
		value := o.get(name)
		if !isArray(value) {
			continue
		}
		for from, to := range elements(value) {
			if entry, bad := readObject(value[from:to]); bad == nil {
				c.addText(entry.text("text"))
			}
		}
	}
	return c
}
