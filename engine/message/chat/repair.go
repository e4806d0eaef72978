package chat

// This part of the package mends posted messages that no provider would take: it leaves out what comes twice and reasoning that
// has lost what it belongs to. What it cannot tell from the messages alone, such as a result without its call, is for
// the room that knows the session.

import (
	"bytes"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// Posted are messages after the repair. At gives the index at which each was posted.
type Repaired struct {
	Messages []json.RawMessage
	At       []int
	Skipped  []Skipped
}

// skip notes what was left out of a posted element.
func (p *Repaired) skip(at int, code, reason string) {
	p.Skipped = append(p.Skipped, Skipped{Index: at, Code: code, Reason: reason})
}

// Messages mends posted messages. What cannot be read is passed on as it is, for chat to refuse.
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

// read finds the members of a posted element; false where it is no object that can be read.
func readPosted(raw []byte) (rawjson.Object, bool) {
	if raw = bytes.TrimSpace(raw); !rawjson.Valid(raw) {
		return rawjson.Object{}, false
	}
	o, twice, ok := rawjson.ReadObject(raw)
	return o, ok && twice == nil
}

// calls leaves out the calls of a chat message whose ids it uses already.
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

// blocks leaves out the calls and results of an Anthropic message whose ids it uses already.
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

// unique leaves out the elements of a list whose ids came before in it. An element without an id stays.
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

// twice tells whether an item is left out, because it came before: by its id, or as a call that still waits for its
// output. seen are the ids of items, open those of calls.
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

// dropLoneReasoning leaves out reasoning that no item of the model follows.
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

// ledTo tells whether an item of the model stands behind a reasoning item and others like it.
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
