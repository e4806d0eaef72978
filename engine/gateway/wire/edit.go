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
	// Messages replace all messages, including the head; nil leaves them.
	Messages []json.RawMessage
	System   json.RawMessage   // replaces Anthropic's system prompt; nil leaves it
	Tools    []json.RawMessage // added after the client's own
	NoCalls  bool              // the model must answer without calling a tool
	// IncludeUsage asks for the usage of a chat stream.
	IncludeUsage bool
	// Resolved removes the ids of what the provider stores of the conversation, because Messages include it.
	Resolved bool
	// DropBlocks tells Anthropic to drop thinking that was made after another prompt. It needs adaptive thinking and
	// BindingBeta.
	DropBlocks bool
}

// With returns the edited body. If nothing changes, these are the client's own bytes.
func (b *Body) With(e Edit) []byte {
	changes, added := b.changes(&e)
	if len(changes) == 0 {
		return b.whole
	}
	return b.rewrite(nil, changes, added)
}

// Append appends the edited body to dst, which must not share memory with the body or the edit.
func (b *Body) Append(dst []byte, e Edit) []byte {
	changes, added := b.changes(&e)
	return b.rewrite(dst, changes, added)
}

func (b *Body) rewrite(dst []byte, changes map[string]change, added int) []byte {
	before := b.whole[:len(b.whole)-len(b.object.Raw)]
	return rewrite(append(slices.Grow(dst, len(b.whole)+added), before...), &b.object, changes, added)
}

// changes returns the changes of an edit by member, and about how many bytes they write.
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

// WithoutUsage returns a body without the request for a stream's usage that an edit added. was is the client's own
// stream_options, or nil. ok is false if the body has none.
func WithoutUsage(body []byte, was json.RawMessage) (out []byte, ok bool) {
	o, _, ok := rawjson.ReadObject(body)
	if !ok || o.Find("stream_options") == nil {
		return nil, false
	}
	var restore change
	if was != nil {
		restore = func(out, _ []byte) []byte { return append(out, was...) }
	}
	return rewrite(nil, &o, map[string]change{"stream_options": restore}, len(was)), true
}

// change appends the new value of a member.
type change func(out, was []byte) []byte

// rewrite appends an object with changed members to dst. A nil change removes the member. New members are added at the
// end. added is about how many bytes the changes write.
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
		value := o.Raw[f.Value:f.End]
		if named {
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

// appendList appends a list with other elements. The elements that both lists start with keep the white space between
// them, so that an edit at the end changes nothing before it.
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

// WithoutThinking returns a body of Anthropic's Messages without the thinking in its messages, for a provider that refused
// it. Signed summaries become plain text. ok is false if there is nothing to remove.
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

// withoutSummaries turns the compaction blocks of a message into text.
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
