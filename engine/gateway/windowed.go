package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/gateway/history"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// windowed is the answer to a request for a window, with its messages, which are in the answer's buffer.
type windowed struct {
	*window.Answer
	Messages []json.RawMessage
	System   json.RawMessage // Anthropic's; nil if there is none
}

func shown(answer *window.Answer) *windowed {
	w := &windowed{Answer: answer}
	w.Messages, w.System = answer.Shown()
	return w
}

// assembled returns the messages and the system prompt that replace the client's. Its leading system messages stay in
// front, and its other system messages keep their places. system is nil if the client's system prompt stays.
func assembled(b *wire.Body, w *windowed) (messages []json.RawMessage, system json.RawMessage) {
	shown := w.Messages
	if b.Format == chat.AnthropicMessages {
		if !sameSystem(b.System, w.System) {
			system = w.System
		}
		return nonNil(b.Anchored(shown)), system
	}
	if p, err := render.ParseSystem(b.HeadText()); err == nil && p.Text != "" {
		shown = shown[1:] // it repeats the client's own head, which is sent unchanged
	}
	shown = b.Anchored(shown)
	if len(b.Head) == 0 {
		return nonNil(shown), nil
	}
	return slices.Concat(b.Head, shown), nil
}

// refer replaces those items of a list that the client sent as references, and that the window shows whole, by the
// references.
func refer(list []json.RawMessage, references map[string]history.Reference) {
	if len(references) == 0 {
		return
	}
	for i, raw := range list {
		o, _, _ := rawjson.ReadObject(raw)
		// Reasoning is shown whole or not at all, without its status.
		if r, ok := references[o.Text("id")]; ok && (bytes.Equal(raw, r.Item) || o.Text("type") == "reasoning") {
			list[i] = r.Sent
		}
	}
}

// nonNil returns an empty list for nil.
func nonNil(list []json.RawMessage) []json.RawMessage {
	if list == nil {
		return []json.RawMessage{}
	}
	return list
}

// sameSystem reports whether a window's system prompt has the same text as the client's, which has at most one breakpoint.
// Then the client's bytes stay.
func sameSystem(client, shown json.RawMessage) bool {
	was, err := render.ParseSystem(client)
	if err != nil || bytes.Count(client, []byte(`"cache_control"`)) > 1 {
		return false
	}
	is, err := render.ParseSystem(shown)
	return err == nil && was.Text == is.Text
}

// reminded returns the client's messages with the reminders of its window, or nil if the window has none.
func reminded(b *wire.Body, w *windowed) []json.RawMessage {
	messages, shown := wire.Reminded(b.Format, b.Messages, w.Messages)
	if shown == 0 {
		return nil
	}
	return append(b.Head[:len(b.Head):len(b.Head)], messages...)
}

// tooLong turns the error of a window that cannot fit into a TooLong: the model would have refused the call too. It returns
// other errors unchanged.
func tooLong(err error, ask *Ask, req *window.Request) error {
	known, ok := errors.AsType[*fault.Error](err)
	if !ok || known.Code != "budget_too_small" || known.Unit != "tokens" {
		return err
	}
	most := known.Allowed
	if window := req.Budget.ContextWindow; window != nil {
		most = max(1, *window-*req.Budget.ReserveTokens)
	}
	return &TooLong{Tokens: most + max(1, known.Needed-known.Allowed), Maximum: most}
}
