package wire

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
)

// Weave joins the streams of several rounds into one, with one start, one end and consecutive indexes, and without the
// calls that are held back. Text passes as it arrives. The end of each stream is held until it is known whether another
// round follows.
type Weave struct {
	// HideUsage leaves out the usage of a chat stream, because the client did not ask for it.
	HideUsage bool

	rounds *Rounds
	round  int
	next   int                // the client's next index
	at     map[int64]int      // the client's index of a block, call or item of this round; -1 if it is held back
	number int                // of Responses' events
	spoken bool               // Chat Completions: something was said in an earlier round
	said   bool               // the same, in this round
	held   []Event            // the end of this round
	calls  map[int64][]fields // pieces of calls that have no name yet
	// waiting are the events of a reasoning item, which belongs to the next item.
	waiting []Event
	thinks  bool
}

// NewWeave returns a Weave for rounds.
func NewWeave(r *Rounds) *Weave {
	return &Weave{rounds: r, at: map[int64]int{}, calls: map[int64][]fields{}}
}

// Round starts the stream of the next round.
func (w *Weave) Round() {
	next := NewWeave(w.rounds)
	next.HideUsage, next.round, next.next, next.number = w.HideUsage, w.round+1, w.next, w.number
	next.spoken = w.spoken || w.said
	*w = *next
}

// Add adds an event of the current round and returns what the client gets now.
func (w *Weave) Add(e Event) []byte {
	if len(e.Data) == 0 {
		return e.Raw
	}
	if string(e.Data) == "[DONE]" {
		w.held = append(w.held, e)
		return nil
	}
	var o fields
	if json.Unmarshal(e.Data, &o) != nil {
		return e.Raw
	}
	switch w.rounds.Format {
	case chat.OpenAIChat:
		return w.chat(e, o)
	case chat.AnthropicMessages:
		return w.messages(e, o)
	}
	return w.responses(e, o)
}

// End returns the end of the client's stream, after the last round.
func (w *Weave) End() (out []byte) {
	plain := w.round == 0 && w.rounds.Hidden == nil
	for _, e := range w.held {
		var o fields
		if json.Unmarshal(e.Data, &o) != nil {
			out = append(out, e.Raw...)
			continue
		}
		switch w.rounds.Format {
		case chat.OpenAIChat:
			w.rename(o)
			if usage := o["usage"]; usage != nil && string(usage) != "null" {
				if w.HideUsage && len(o.list("choices")) == 0 {
					continue
				}
				o["usage"], _ = encode(w.rounds.raw)
			}
		case chat.AnthropicMessages:
			if plain {
				out = append(out, e.Raw...)
				continue
			}
			if o["usage"] != nil {
				o["usage"], _ = encode(w.rounds.raw)
			}
		default:
			out = append(out, w.flush()...)
			response := o.object("response")
			w.rounds.common(response)
			response["output"], _ = encode(nonNil(w.rounds.seen))
			o["response"], _ = encode(response)
			w.count(o)
		}
		out = append(out, event(e.Name, o)...)
	}
	return out
}

// Unread returns the end of the client's stream if the answer of the first round cannot be parsed. ok is false after a
// later round, because the client's stream would be inconsistent.
func (w *Weave) Unread() (out []byte, ok bool) {
	if w.round > 0 {
		return nil, false
	}
	out = w.flush()
	for _, e := range w.held {
		var o fields
		response := fields(nil)
		if w.rounds.Format == chat.OpenAIResponses && json.Unmarshal(e.Data, &o) == nil {
			response = o.object("response")
		}
		if response == nil {
			out = append(out, e.Raw...)
			continue
		}
		w.rounds.withoutTools(response)
		o.set("response", response)
		w.count(o)
		out = append(out, event(e.Name, o)...)
	}
	return out, true
}

// event writes an event.
func event(name string, o fields) []byte {
	var b bytes.Buffer
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	data, _ := encode(o)
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	return b.Bytes()
}

func (o fields) set(name string, v any) { o[name], _ = encode(v) }

// rename gives an event of a later round the id of the answer that the client knows.
func (w *Weave) rename(o fields) {
	if w.round > 0 && o["id"] != nil {
		o.set("id", w.rounds.id)
	}
}

func (w *Weave) chat(e Event, o fields) []byte {
	choices := o.list("choices")
	if o.object("error") != nil {
		return e.Raw
	}
	if len(choices) != 1 {
		if u := o["usage"]; u != nil && string(u) != "null" {
			w.held = append(w.held, e)
			return nil
		}
		if w.round > 0 {
			return nil
		}
		return e.Raw
	}
	var c fields
	_ = json.Unmarshal(choices[0], &c)
	delta := c.object("delta")
	stops := c.text("finish_reason") != ""
	calls := delta.list("tool_calls")
	if w.round == 0 && !stops && calls == nil {
		w.said = w.said || delta.text("content") != ""
		return e.Raw
	}
	w.rename(o)
	if w.round > 0 {
		delete(delta, "role")
	}
	if text := delta.text("content"); text != "" {
		if w.spoken && !w.said {
			delta.set("content", between+text)
		}
		w.said = true
	} else {
		delete(delta, "content")
	}
	delete(delta, "tool_calls")
	chunk := func(delta fields, finish json.RawMessage) []byte {
		c["finish_reason"] = finish
		c.set("delta", delta)
		o.set("choices", []any{c})
		return event(e.Name, o)
	}
	finish, usage := c["finish_reason"], o["usage"]
	if stops {
		delete(o, "usage")
	}
	var out []byte
	null := json.RawMessage("null")
	if len(delta) > 0 {
		out = chunk(delta, null)
	}
	for _, raw := range calls {
		var call fields
		_ = json.Unmarshal(raw, &call)
		out = append(out, w.call(call, func(call fields) []byte {
			delta := fields{}
			delta.set("tool_calls", []any{call})
			return chunk(delta, null)
		})...)
	}
	if stops {
		if usage != nil {
			o["usage"] = usage
		}
		raw := chunk(fields{}, finish)
		w.held = append(w.held, parse(raw))
	}
	return out
}

// call passes on a piece of a call if it calls one of the client's tools. Pieces that arrive before the tool's name
// wait for it.
func (w *Weave) call(piece fields, pass func(fields) []byte) (out []byte) {
	var index int64
	indexed := json.Unmarshal(piece["index"], &index) == nil
	at, known := w.at[index]
	if !indexed || !known {
		name := piece.object("function").text("name")
		if name == "" && indexed {
			w.calls[index] = append(w.calls[index], piece)
			return nil
		}
		at = -1
		if !w.rounds.names[name] {
			at, w.next = w.next, w.next+1
		}
		if indexed {
			w.at[index] = at
		}
	}
	pieces := append(w.calls[index], piece)
	delete(w.calls, index)
	for _, piece := range pieces {
		if at >= 0 {
			piece.set("index", at)
			out = append(out, pass(piece)...)
		}
	}
	return out
}

func (w *Weave) messages(e Event, o fields) []byte {
	switch o.text("type") {
	case "message_start":
		if w.round > 0 {
			return nil
		}
	case "content_block_start":
		b, at := o.object("content_block"), -1
		if b.text("type") != "tool_use" || !w.rounds.names[b.text("name")] {
			at, w.next = w.next, w.next+1
		}
		w.at[o.number("index")] = at
		return w.indexed(e, o, "index")
	case "content_block_delta", "content_block_stop":
		return w.indexed(e, o, "index")
	case "message_delta", "message_stop":
		w.held = append(w.held, e)
		return nil
	}
	return e.Raw
}

// indexed returns an event with the client's index, or nothing if it is held back.
func (w *Weave) indexed(e Event, o fields, name string) []byte {
	was := o.number(name)
	at, known := w.at[was]
	switch {
	case !known || int64(at) == was:
		return e.Raw
	case at < 0:
		return nil
	}
	o[name] = strconv.AppendInt(nil, int64(at), 10)
	return event(e.Name, o)
}

func (w *Weave) responses(e Event, o fields) []byte {
	switch kind := o.text("type"); kind {
	case "response.created", "response.in_progress", "response.queued":
		if w.round > 0 {
			return nil
		}
	case "response.completed", "response.incomplete":
		w.held = append(w.held, e)
		return nil
	case "response.output_item.added":
		item := o.object("item")
		w.thinks = item.text("type") == "reasoning"
		if w.thinks {
			break
		}
		if item.text("type") == "function_call" && w.rounds.names[item.text("name")] {
			w.waiting, w.at[o.number("output_index")] = nil, -1
			return nil
		}
		return append(w.flush(), w.item(e, o)...)
	}
	if w.thinks && o["output_index"] != nil {
		w.waiting = append(w.waiting, e)
		return nil
	}
	return w.item(e, o)
}

// flush returns the waiting events.
func (w *Weave) flush() (out []byte) {
	for _, e := range w.waiting {
		var o fields
		_ = json.Unmarshal(e.Data, &o)
		out = append(out, w.item(e, o)...)
	}
	w.waiting, w.thinks = nil, false
	return out
}

// item returns an event of Responses with the client's indexes.
func (w *Weave) item(e Event, o fields) []byte {
	if o["output_index"] != nil {
		was := o.number("output_index")
		at, known := w.at[was]
		if !known {
			at, w.next = w.next, w.next+1
			w.at[was] = at
		}
		if at < 0 {
			return nil
		}
		o.set("output_index", at)
	}
	if response := o.object("response"); response != nil {
		w.rounds.withoutTools(response)
		if w.round > 0 && response["id"] != nil {
			response.set("id", w.rounds.id)
		}
		o.set("response", response)
	}
	w.count(o)
	return event(e.Name, o)
}

// count numbers an event of Responses.
func (w *Weave) count(o fields) {
	if o["sequence_number"] != nil {
		o.set("sequence_number", w.number)
		w.number++
	}
}
