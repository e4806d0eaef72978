package chat

import (
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// group collects the Responses items that become one assistant message: its text, its calls, the work of the provider's
// own tools, and the reasoning before each of them.
type group struct {
	msg       Parsed
	spoken    bool // it has a message item
	content   content
	reasoning content
	items     [][]byte
	held      []heldReasoning // waiting for the item that they belong to
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
	switch kind := itemKind(o); kind {
	case "":
		return &problem{CodeUnknownItem, "the type of an item must be a string; " + quoteValue(o.Get("type")) +
			" is none"}
	case itemMessage, a2aType:
		return p.messageItem(index, m, o)
	case ItemCall:
		return p.callItem(index, m, o)
	default:
		if needsNextItem(kind, o.Text("id")) {
			p.group.held = append(p.group.held, heldReasoning{m, index, o.Raw, reasoningText(o)})
			return nil
		}
		return p.opaqueItem(index, kind, m, o)
	}
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
	if bad = c.read(OpenAIResponses, o.Get("content")); bad != nil {
		return bad
	}
	m.Role = r
	if bad = m.checkA2A(o); bad != nil {
		return bad
	}
	if r == plan.RoleAssistant && m.Kind != plan.KindA2A {
		bad = p.join(index, m, o.Raw, c)
		p.group.spoken = true
		return bad
	}
	p.closeGroup()
	m.setContent(&c)
	m.Raw = rawjson.ArrayOf(o.Raw)
	p.msgs = append(p.msgs, Parsed{Message: m, Index: index})
	return nil
}

func (p *parser) callItem(index int, m Message, o *object) *problem {
	args, ok := rawjson.String(o.Get("arguments"))
	if !ok && o.Get("arguments") != nil {
		return &problem{CodeMalformed, "a call's arguments must be a string, also where they are JSON"}
	}
	m.Role = plan.RoleAssistant
	if bad := m.addCall(Call{ID: o.Text("call_id"), Name: o.Text("name"), Arguments: args}); bad != nil {
		return bad
	}
	return p.join(index, m, o.Raw, content{})
}

// join adds an assistant's item, with the reasoning held for it, to the group, or begins a new group. Consecutive calls
// are parallel and stay together, and items of the provider's own tools stay with the message or the call that they led
// to. A second message, or reasoning after a message, begins a new group. So does an item of another agent or
// delegation, because a viewer may see only one of them, and a hidden item after visible ones or the reverse.
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
		parallel := len(own.Calls) > 0 || !g.spoken || len(m.Calls) > 0 && len(g.held) == 0
		if !parallel || own.Agent != m.Agent || own.Delegation != m.Delegation || own.Hidden != m.Hidden {
			p.emitGroup()
		}
	}
	if len(g.items) == 0 {
		g.msg = Parsed{Message: Message{Role: m.Role, Kind: m.Kind, Agent: m.Agent, Delegation: m.Delegation,
			Format: m.Format, Hidden: m.Hidden}, Index: index}
		if len(g.held) > 0 {
			g.msg.Index = g.held[0].index
		}
	}
	for i := range g.held {
		h := &g.held[i]
		g.msg.fillOwn(&h.msg)
		g.reasoning.texts = append(g.reasoning.texts, h.summary.texts...)
		g.content.parts |= plan.PartThinking
		g.items = append(g.items, h.raw)
	}
	g.held = nil
	g.msg.fillOwn(&m)
	g.items = append(g.items, raw)
	g.content.texts = append(g.content.texts, c.texts...)
	g.content.images += c.images
	g.content.parts |= c.parts
	if len(m.Calls) > 0 {
		g.msg.Calls = append(g.msg.Calls, m.Calls...)
		g.msg.Kind = plan.KindCall
	}
	return nil
}

// fillOwn copies Mneme's own fields from another item of the same message, where this item has none.
func (m *Message) fillOwn(from *Message) {
	if m.Reasoning == "" {
		m.Reasoning = from.Reasoning
	}
	if m.Decision == "" {
		m.Decision = from.Decision
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

// emitGroup makes a message from the group's items.
func (p *parser) emitGroup() {
	g := &p.group
	if len(g.items) == 0 {
		return
	}
	g.msg.setContent(&g.content)
	g.msg.addReasoning(&g.reasoning)
	g.msg.Raw = rawjson.ArrayOf(g.items...)
	if bad := g.msg.checkCalls(); bad != nil {
		p.fail(g.msg.Index, bad)
	}
	p.msgs = append(p.msgs, g.msg)
	p.group = group{held: g.held}
}

// reasoningText returns the readable text of a reasoning item: its summary and its content.
func reasoningText(o *object) (c content) {
	for _, name := range []string{"summary", "content"} {
		value := o.Get(name)
		if !rawjson.IsArray(value) {
			continue
		}
		for from, to := range rawjson.Elements(value) {
			if entry, bad := readObject(value[from:to]); bad == nil {
				c.addText(entry.Text("text"))
			}
		}
	}
	return c
}
