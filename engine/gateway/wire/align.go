package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
)

// pair is a question that is both in a window and in the client's messages.
type pair struct {
	window, client int // their indices
	reminders      []json.RawMessage
	first          int // of the window: the question's reminders, or itself
}

// align finds the questions of a window among the client's messages, last first. A window may have more or fewer messages
// than the client sends, but both have their questions in the same order.
func align(f chat.Format, client, window []json.RawMessage) (out []pair) {
	at := len(client) // All messages from here on are matched.
	for i := len(window) - 1; i >= 0; i-- {
		asked := questionOf(f, window[i])
		if asked == nil || asked.text == "" {
			continue
		}
		p := pair{window: i, first: i, reminders: asked.reminders}
		if f != chat.AnthropicMessages && i > 0 {
			if q := questionOf(f, window[i-1]); q != nil && q.text == "" && q.reminders != nil {
				i--
				p.reminders, p.first = q.reminders, i
			}
		}
		for j := at - 1; j >= 0; j-- {
			if q := questionOf(f, client[j]); q != nil && q.text == asked.text {
				at, p.client = j, j
				out = append(out, p)
				break
			}
		}
	}
	slices.Reverse(out)
	return out
}

// Reminded returns the client's messages with the reminders of a window of the same conversation, each before the user
// message that it was recalled for. It leaves out the reminders of messages that the client does not send.
func Reminded(f chat.Format, client, window []json.RawMessage) (out []json.RawMessage, shown int) {
	before := map[int][]json.RawMessage{}
	for _, p := range align(f, client, window) {
		before[p.client] = p.reminders
		shown += len(p.reminders)
	}
	out = make([]json.RawMessage, 0, len(client)+shown)
	for j, raw := range client {
		if list := before[j]; list == nil {
			out = append(out, raw)
		} else if f == chat.AnthropicMessages {
			out = append(out, withBlocks(raw, list)...)
		} else {
			out = append(append(out, list...), raw)
		}
	}
	return out, shown
}

// Anchored returns a window with the system messages that are among the client's messages. Each is put before the question
// that it precedes, or as far after a question as it is in the client's list. It is left out if the window does not show
// that place.
func (b *Body) Anchored(window []json.RawMessage) []json.RawMessage {
	if b.anchors == 0 {
		return window
	}
	client := b.Messages
	pairs := align(b.Format, client, window)
	before := map[int][]json.RawMessage{} // by place in the window
	for k, raw := range client {
		if !IsSystem(raw) {
			continue
		}
		next := k + 1
		for next < len(client) && IsSystem(client[next]) {
			next++
		}
		at := slices.IndexFunc(pairs, func(p pair) bool { return p.client >= next })
		switch {
		case at >= 0 && pairs[at].client == next:
			before[pairs[at].first] = append(before[pairs[at].first], raw)
			continue
		case at < 0:
			at = len(pairs)
		}
		if at == 0 {
			continue
		}
		p, end := pairs[at-1], len(window)
		if at < len(pairs) {
			end = pairs[at].first
		}
		place := p.window + 1
		for j := p.client + 1; j < k; j++ {
			if !IsSystem(client[j]) {
				place++
			}
		}
		place = min(place, end)
		before[place] = append(before[place], raw)
	}
	out := make([]json.RawMessage, 0, len(window)+len(before))
	for i, raw := range window {
		out = append(append(out, before[i]...), raw)
	}
	return append(out, before[len(window)]...)
}

// question is a user message: its text, and the reminders in it. In OpenAI's formats a reminder is a separate message,
// and has no text here.
type question struct {
	text      string
	reminders []json.RawMessage // messages, or Anthropic's blocks
}

// questionOf reads a user message. It returns nil for other messages.
func questionOf(f chat.Format, raw json.RawMessage) *question {
	o, _, _ := rawjson.ReadObject(raw)
	if o.Text("role") != "user" {
		return nil
	}
	q := new(question)
	var texts []string
	say := func(value []byte, whole json.RawMessage) {
		text, ok := rawjson.String(value)
		switch {
		case !ok:
		case strings.HasPrefix(text, reminder.Title):
			q.reminders = append(q.reminders, whole)
		default:
			texts = append(texts, text)
		}
	}
	content := o.Get("content")
	say(content, raw)
	for _, part := range elements(content) {
		if rawjson.IsObject(part) {
			p, _, _ := rawjson.ReadObject(part)
			whole := part
			if f != chat.AnthropicMessages {
				whole = raw
			}
			say(p.Get("text"), whole)
		}
	}
	q.text = strings.Join(texts, "\n")
	return q
}

// withBlocks puts reminders before an Anthropic user message, as a message of their own. If the message has tool results,
// which must directly follow their calls, the reminders go into the message, after the results.
func withBlocks(message json.RawMessage, reminders []json.RawMessage) []json.RawMessage {
	o, _, _ := rawjson.ReadObject(message)
	content := elements(o.Get("content"))
	results := 0
	for i, raw := range content {
		if rawjson.IsObject(raw) {
			if block, _, _ := rawjson.ReadObject(raw); block.Text("type") == "tool_result" {
				results = i + 1
			}
		}
	}
	if results == 0 {
		own := append(append([]byte(`{"role":"user","content":`), rawjson.ArrayOf(raws(reminders)...)...), '}')
		return []json.RawMessage{own, message}
	}
	var blocks [][]byte
	blocks = append(blocks, raws(content[:results])...)
	blocks = append(append(blocks, raws(reminders)...), raws(content[results:])...)
	return []json.RawMessage{o.With("content", rawjson.ArrayOf(blocks...))}
}
