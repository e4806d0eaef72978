package chat

// This file repairs posted messages that every provider would refuse: it removes duplicates, and reasoning without the
// item it belongs to. What depends on the session, such as a result without its call, is left to package session.

import (
	"bytes"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// Repaired are messages after the repair. At returns the index at which each was posted.
type Repaired struct {
	Messages []json.RawMessage
	At       []int
	Skipped  []Skipped
}

// skip records what was left out of a posted element.
func (p *Repaired) skip(at int, code, reason string) {
	p.Skipped = append(p.Skipped, Skipped{Index: at, Code: code, Reason: reason})
}

// Repair repairs posted messages. Elements that cannot be read are returned unchanged, for Parse to reject.
func Repair(f Format, in []json.RawMessage) *Repaired {
	p := new(Repaired)
	seen := map[string]bool{}
	open := map[string]bool{}
	for at, raw := range in {
		o, ok := readPosted(raw)
		if !ok {
			p.keep(at, raw)
			continue
		}
		switch f {
		case OpenAIResponses:
			if p.twice(at, &o, seen, open) {
				continue
			}
		case AnthropicMessages:
			raw = p.blocks(at, &o)
		default:
			raw = p.calls(at, &o)
		}
		p.keep(at, raw)
	}
	if f == OpenAIResponses {
		p.dropLoneReasoning()
	}
	return p
}

func (p *Repaired) keep(at int, raw json.RawMessage) {
	p.Messages, p.At = append(p.Messages, raw), append(p.At, at)
}

// readPosted finds the members of a posted element. It returns false if it is not a readable object.
func readPosted(raw []byte) (rawjson.Object, bool) {
	if raw = bytes.TrimSpace(raw); !rawjson.Valid(raw) {
		return rawjson.Object{}, false
	}
	o, twice, ok := rawjson.ReadObject(raw)
	return o, ok && twice == nil
}

// calls removes the calls of a chat message whose ids it already uses.
func (p *Repaired) calls(at int, o *rawjson.Object) json.RawMessage {
	list := o.Get("tool_calls")
	if !rawjson.IsArray(list) {
		return o.Raw
	}
	kept, cut := p.unique(at, list, func(call *rawjson.Object) (string, string) {
		return call.Text("id"), CodeDuplicateCall
	})
	if !cut {
		return o.Raw
	}
	return o.With("tool_calls", kept)
}

// blocks removes the calls and results of an Anthropic message whose ids it already uses.
func (p *Repaired) blocks(at int, o *rawjson.Object) json.RawMessage {
	list := o.Get("content")
	if !rawjson.IsArray(list) {
		return o.Raw
	}
	kept, cut := p.unique(at, list, func(block *rawjson.Object) (string, string) {
		switch block.Text("type") {
		case "tool_use":
			return block.Text("id"), CodeDuplicateCall
		case "tool_result":
			return block.Text("tool_use_id"), CodeDuplicateResult
		}
		return "", ""
	})
	if !cut {
		return o.Raw
	}
	return o.With("content", kept)
}

// unique removes the elements of a list whose ids occurred earlier in it. It keeps elements without an id.
func (p *Repaired) unique(at int, list []byte, idOf func(*rawjson.Object) (id, code string)) (kept []byte, cut bool) {
	seen := map[string]bool{}
	var all [][]byte
	for from, to := range rawjson.Elements(list) {
		element, twice, ok := rawjson.ReadObject(list[from:to])
		if ok && twice == nil {
			id, code := idOf(&element)
			if id != "" && seen[code+id] {
				p.skip(at, code, "the id "+id+" comes twice in one message")
				cut = true
				continue
			}
			seen[code+id] = true
		}
		all = append(all, list[from:to])
	}
	return rawjson.ArrayOf(all...), cut
}

// twice reports whether an item is a duplicate: it has the id of an earlier item, or is a call that already waits for
// its output. seen are the ids of items, open those of calls.
func (p *Repaired) twice(at int, o *rawjson.Object, seen, open map[string]bool) bool {
	kind, id := o.Text("type"), o.Text("id")
	if id != "" && kind != itemReference {
		if seen[id] {
			p.skip(at, CodeDuplicateItem, "an item with the id "+id+" came before")
			return true
		}
		seen[id] = true
	}
	switch {
	case IsOutputItem(kind):
		delete(open, o.Text(itemAnswerField(kind)))
	case OutputItemOf(kind) != "":
		call := o.Text(itemIDField(kind))
		if call != "" && open[call] {
			p.skip(at, CodeDuplicateCall, "the call "+call+" came before and waits for its output")
			return true
		}
		open[call] = true
	}
	return false
}

// dropLoneReasoning removes reasoning that no item of the model follows.
func (p *Repaired) dropLoneReasoning() {
	out := Repaired{Skipped: p.Skipped}
	for i, raw := range p.Messages {
		o, ok := readPosted(raw)
		if ok && needsNextItem(o.Text("type"), o.Text("id")) && !p.ledTo(i) {
			out.skip(p.At[i], CodeReasoningAlone, "no message or call follows this reasoning")
			continue
		}
		out.keep(p.At[i], raw)
	}
	*p = out
}

// ledTo reports whether an item of the model follows a reasoning item and adjacent ones.
func (p *Repaired) ledTo(i int) bool {
	for _, raw := range p.Messages[i+1:] {
		o, ok := readPosted(raw)
		if !ok {
			return true
		}
		kind := o.Text("type")
		if needsNextItem(kind, o.Text("id")) {
			continue
		}
		if kind == "" || kind == itemMessage {
			return o.Text("role") == "assistant"
		}
		return kind != "a2a" && (!IsOutputItem(kind) || o.Text(itemAnswerField(kind)) == "")
	}
	return false
}
