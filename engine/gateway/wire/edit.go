package wire

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// Edit is what changes in a body. The zero Edit changes nothing.
type Edit struct {
	// Messages go in the place of all messages, those of the head among them; nil: they stay.
	Messages []json.RawMessage
	System   json.RawMessage   // in the place of Anthropic's system prompt; nil: it stays
	Tools    []json.RawMessage // behind the client's own
	NoCalls  bool              // the model must answer without calling a tool
	// IncludeUsage asks for the usage of a chat stream.
	IncludeUsage bool
	// Resolved leaves out the names of what the provider keeps of the conversation, because Messages hold it.
	Resolved bool
	// DropBlocks tells Anthropic to leave out thinking that was made behind another prompt. Only adaptive thinking takes
	// it, and only with BindingBeta.
	DropBlocks bool
}

// With is the body with an edit. Where nothing changes, it is the client's own bytes.
func (b *Body) With(e Edit) []byte {
	changes, added := b.changes(&e)
	if len(changes) == 0 {
		return b.object.Raw
	}
	return rewrite(nil, &b.object, changes, added)
}

// Append appends the body with an edit to dst, which shares no memory with the body or the edit.
func (b *Body) Append(dst []byte, e Edit) []byte {
	changes, added := b.changes(&e)
	return rewrite(dst, &b.object, changes, added)
}

// changes are those of an edit by the names of the members, and about how many bytes they write in all.
func (b *Body) changes(e *Edit) (changes map[string]change, added int) {
	changes = map[string]change{}
	if e.Messages != nil {
		changes[b.listName()] = func(out, was []byte) []byte { return appendList(out, was, e.Messages) }
	}
	if e.System != nil {
		changes["system"] = func(out, _ []byte) []byte { return append(out, e.System...) }
	}
	var all []json.RawMessage // tools
	if len(e.Tools) > 0 {
		all = append(b.Tools[:len(b.Tools):len(b.Tools)], e.Tools...)
		changes["tools"] = func(out, was []byte) []byte { return appendList(out, was, all) }
	}
	if e.NoCalls {
		changes["tool_choice"] = func(out, _ []byte) []byte {
			if b.Format == chat.AnthropicMessages {
				return append(out, `{"type":"none"}`...)
			}
			return append(out, `"none"`...)
		}
	}
	if e.IncludeUsage && b.Format == chat.OpenAIChat && b.Stream && !b.WantsUsage {
		changes["stream_options"] = func(out, was []byte) []byte {
			return append(out, member(was, "include_usage", []byte("true"))...)
		}
	}
	if e.DropBlocks && b.Format == chat.AnthropicMessages && b.Thinking == "adaptive" {
		changes["thinking"] = func(out, was []byte) []byte { return append(out, dropBlocks(was)...) }
	}
	if e.Resolved {
		for _, name := range [...]string{"previous_response_id", "conversation"} {
			if b.object.Find(name) != nil {
				changes[name] = nil
			}
		}
	}
	added = 256 + len(e.System)
	for _, list := range [...][]json.RawMessage{e.Messages, all} {
		for _, raw := range list {
			added += len(raw) + 1
		}
	}
	return changes, added
}

// change appends what is to stand in the place of a member's value.
type change func(out, was []byte) []byte

// rewrite appends an object to dst with changes to its members. A nil change leaves the member out. A member that is not
// there yet is put behind the others. The changes write about so many bytes in all.
func rewrite(dst []byte, o *rawjson.Object, changes map[string]change, added int) []byte {
	kept := len(o.Raw)
	for i := range o.Fields {
		if f := &o.Fields[i]; changes[string(f.Name)] != nil {
			kept -= f.End - f.Value
		}
	}
	out := slices.Grow(dst, kept+added)
	end := 1 // of what was copied or left out
	if len(o.Fields) > 0 {
		end = o.Fields[0].Start
	}
	out = append(out, o.Raw[:end]...)
	members := 0
	for i := range o.Fields {
		f := &o.Fields[i]
		end = f.End
		change, named := changes[string(f.Name)]
		if named && change == nil {
			continue
		}
		if members > 0 {
			out = append(out, o.Raw[o.Fields[i-1].End:f.Start]...)
		}
		out = append(out, o.Raw[f.Start:f.Value]...)
		if value := o.Raw[f.Value:f.End]; named {
			out = change(out, value)
		} else {
			out = append(out, value...)
		}
		members++
	}
	for _, name := range additions {
		change := changes[name]
		if change == nil || o.Find(name) != nil {
			continue
		}
		if members > 0 {
			out = append(out, ',')
		}
		out = change(append(rawjson.AppendString(out, name), ':'), nil)
		members++
	}
	return append(out, o.Raw[end:]...)
}

// additions are the members that an edit may add, in the order in which they are added.
var additions = []string{"messages", "input", "system", "stream_options", "thinking", "tools", "tool_choice"}

// member sets a member of an object, or makes the object.
func member(was []byte, name string, value []byte) []byte {
	if !rawjson.IsObject(was) {
		was = []byte("{}")
	}
	o, _, _ := rawjson.ReadObject(was)
	return o.With(name, value)
}

// appendList appends a list with other elements. Those that the new list begins with as the old one did stay with the
// white space between them, so that an edit at the end changes nothing before it.
func appendList(out, was []byte, elements []json.RawMessage) []byte {
	if !rawjson.IsArray(was) {
		return append(out, rawjson.ArrayOf(raws(elements)...)...)
	}
	same, end := 0, 1 // how many elements stay, and where they end
	last, going := 1, true
	for from, to := range rawjson.Elements(was) {
		if going = going && same < len(elements) && bytes.Equal(was[from:to], elements[same]); going {
			same, end = same+1, to
		}
		last = to // what follows the last element stays, too
	}
	out = append(out, was[:end]...)
	for i, raw := range elements[same:] {
		if same+i > 0 {
			out = append(out, ',')
		}
		out = append(out, raw...)
	}
	return append(out, was[last:]...)
}

func raws(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// BindingBeta is the value of anthropic-beta that DropBlocks needs.
const BindingBeta = "thinking-binding-controls-2026-08-01"

// dropBlocks asks Anthropic to leave out thinking blocks that are bound to another prompt, within the body's thinking.
func dropBlocks(was []byte) []byte {
	var binding []byte
	if rawjson.IsObject(was) {
		o, _, _ := rawjson.ReadObject(was)
		binding = o.Get("block_binding")
	}
	return member(was, "block_binding", member(binding, "prefix_mismatch_behavior", []byte(`"drop_block"`)))
}

// WithoutThinking is a body of Anthropic's Messages without any thinking in its messages, for a provider that has
// refused it. A signed summary, which stands only where its messages do not, becomes the text that it is. ok is false
// where there is nothing to leave out.
func WithoutThinking(raw []byte) (out []byte, ok bool) {
	b, err := Read(chat.AnthropicMessages, raw)
	if err != nil {
		return nil, false
	}
	messages := make([]json.RawMessage, len(b.Messages))
	for i, m := range b.Messages {
		left := chat.WithoutParts(chat.Blocks, m, plan.PartThinking, false)
		left = withoutSummaries(left)
		o, _, _ := rawjson.ReadObject(left)
		if string(o.Get("content")) == "[]" {
			left = o.With("content", rawjson.AppendString(nil, render.Placeholder))
		}
		messages[i], ok = left, ok || !bytes.Equal(left, m)
	}
	if !ok {
		return nil, false
	}
	return b.With(Edit{Messages: messages}), true
}

// withoutSummaries makes texts of a message's compaction blocks.
func withoutSummaries(message []byte) []byte {
	o, _, _ := rawjson.ReadObject(message)
	changed := false
	var blocks [][]byte
	for _, raw := range elements(o.Get("content")) {
		block, _, _ := rawjson.ReadObject(raw)
		if text := block.Text("content"); block.Text("type") == "compaction" && text != "" {
			raw = append(rawjson.AppendString([]byte(`{"type":"text","text":`), text), '}')
			changed = true
		}
		blocks = append(blocks, raw)
	}
	if !changed {
		return message
	}
	return o.With("content", rawjson.ArrayOf(blocks...))
}
