package chat

import (
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// itemKind returns the type of a Responses item, which a message may omit, or "" if it is not a string.
func itemKind(o *object) string {
	value := o.Get("type")
	if value == nil {
		return itemMessage
	}
	kind, _ := rawjson.String(value)
	return kind
}

// opaqueItem reads an item of a type that other formats do not have, or that is unknown. The item stays unchanged and
// becomes part of another message: a call together with its output, the model's own items together with the message or
// call that they led to. Any other item is a message by itself.
func (p *parser) opaqueItem(index int, kind string, m Message, o *object) *problem {
	m.Role = plan.RoleAssistant
	if IsOutputItem(kind) {
		if id := o.Text(itemAnswerField(kind)); id != "" {
			return p.outputItem(index, kind, id, m, o)
		}
		if kind == itemOutput && o.Get("name") == nil {
			return &problem{CodeMissingAnswerID, "a function_call_output needs call_id, the id of the call it answers"}
		}
	} else if call, ok := opaqueCall(kind, o); ok {
		if bad := m.addCall(call); bad != nil {
			return bad
		}
		return p.join(index, m, o.Raw, content{})
	}
	if !standaloneItem(kind) && (o.Get("role") == nil || o.Text("role") == "assistant") {
		return p.join(index, m, o.Raw, content{})
	}
	p.emitGroup()
	bad := p.join(index, m, o.Raw, content{})
	p.emitGroup()
	return bad
}

// opaqueCall reads a call of a type other than function_call. It returns false if the item has no id by which to answer
// it.
func opaqueCall(kind string, o *object) (Call, bool) {
	if OutputItemOf(kind) == "" {
		return Call{}, false
	}
	c := Call{ID: o.Text(itemIDField(kind)), Name: o.Text("name"), Arguments: "{}", Type: kind}
	if c.Name == "" {
		c.Name = itemTool(kind)
	}
	for _, name := range itemArguments() {
		if value := o.Get(name); value != nil {
			var ok bool
			if c.Arguments, ok = rawjson.String(value); !ok {
				c.Arguments = string(value)
			}
			break
		}
	}
	return c, c.ID != ""
}

// outputItem reads an item that answers a call.
func (p *parser) outputItem(index int, kind, answers string, m Message, o *object) *problem {
	p.closeGroup()
	m.Role, m.Kind, m.CallID = plan.RoleTool, plan.KindResult, answers
	var c content
	if kind == itemOutput {
		if bad := c.read(OpenAIResponses, o.Get("output")); bad != nil {
			return bad.in("output")
		}
	} else {
		for _, part := range outputParts(kind, o) {
			c.add(&part)
		}
	}
	m.setContent(&c)
	m.Raw = rawjson.ArrayOf(o.Raw)
	p.msgs = append(p.msgs, Parsed{Message: m, Index: index})
	return nil
}

// itemParts returns the parts of an item that other formats show. Calls and reasoning have none, because a message
// stores them separately.
func itemParts(o *object) []part {
	kind := itemKind(o)
	switch {
	case kind == itemMessage || kind == a2aType:
		return appendParts(OpenAIResponses, nil, o.Get("content"))
	case kind == ItemCall || needsNextItem(kind, o.Text("id")):
		return nil
	case IsOutputItem(kind):
		return outputParts(kind, o)
	}
	if _, ok := opaqueCall(kind, o); ok {
		return nil
	}
	return []part{{o: *o, kind: partOther, typ: kind}}
}

// outputParts returns the parts of an item that answers a call. Anything but text and images is one part of the item's
// type.
func outputParts(kind string, o *object) []part {
	value := o.Get("output")
	switch kind {
	case itemApproved:
		text := "denied"
		if string(o.Get("approve")) == "true" {
			text = "approved"
		}
		if reason := o.Text("reason"); reason != "" {
			text += ": " + reason
		}
		return []part{{kind: partText, text: text}}
	case "shell_call_output":
		return shellParts(value)
	case "program_output":
		value = o.Get("result")
	}
	if rawjson.IsObject(value) {
		value = rawjson.ArrayOf(value)
	}
	if _, ok := rawjson.String(value); !ok && !typedParts(value) {
		return []part{{o: *o, kind: partOther, typ: kind}}
	}
	return appendParts(OpenAIResponses, nil, value)
}

// typedParts reports whether a value is a list of content parts.
func typedParts(value []byte) bool {
	if !rawjson.IsArray(value) {
		return false
	}
	for from, to := range rawjson.Elements(value) {
		if _, bad := readPart(OpenAIResponses, value[from:to]); bad != nil {
			return false
		}
	}
	return true
}

// shellParts returns the outputs of the commands of a call, joined.
func shellParts(value []byte) (ps []part) {
	if !rawjson.IsArray(value) {
		return appendParts(OpenAIResponses, nil, value)
	}
	for from, to := range rawjson.Elements(value) {
		o, bad := readObject(value[from:to])
		if bad != nil {
			continue
		}
		for _, name := range []string{"stdout", "stderr"} {
			if text := o.Text(name); text != "" {
				ps = append(ps, part{kind: partText, text: text})
			}
		}
	}
	return ps
}

// outputWithText sets the text of an item that answers a call. An output without text does not change.
func outputWithText(kind string, o *object, text string) []byte {
	value := o.Get("output")
	switch kind {
	case itemApproved:
		return o.Raw
	case "program_output":
		return o.With("result", rawjson.AppendString(nil, text))
	case "shell_call_output":
		if rawjson.IsArray(value) {
			return o.With("output", shellWithText(value, text))
		}
	}
	if _, ok := rawjson.String(value); kind != itemOutput && !ok && !typedParts(value) {
		return o.Raw
	}
	return o.With("output", contentWithText(OpenAIResponses, value, text, "input_text"))
}

// shellWithText joins the results of several commands into one and keeps how the last one ended.
func shellWithText(value []byte, text string) []byte {
	last := []byte(`{"outcome":{"type":"exit","exit_code":0}}`)
	for from, to := range rawjson.Elements(value) {
		last = value[from:to]
	}
	o, bad := readObject(last)
	if bad != nil {
		return value
	}
	o, _ = readObject(o.With("stdout", rawjson.AppendString(nil, text)))
	return rawjson.ArrayOf(o.With("stderr", []byte(`""`)))
}
