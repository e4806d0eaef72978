package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// windowed is an answered window with its messages, which lie in the answer's buffer.
type windowed struct {
	*window.Answer
	Messages []json.RawMessage
	System   json.RawMessage // Anthropic's; nil: there is none
}

func shown(answer *window.Answer) *windowed {
	w := &windowed{Answer: answer}
	w.Messages, w.System = answer.Shown()
	return w
}

// assembled are the messages and the system prompt that go on instead of a client's. The client's own head stands in
// front, and its system messages in between where they stood. system is nil where the client's stays.
func assembled(b *wire.Body, w *windowed) (messages []json.RawMessage, system json.RawMessage) {
	shown := w.Messages
	if b.Format == chat.AnthropicMessages {
		if !sameSystem(b.System, w.System) {
			system = w.System
		}
		return nonNil(b.Anchored(shown)), system
	}
	if p, err := render.ParseSystem(b.HeadText()); err == nil && p.Text != "" {
		shown = shown[1:] // what the client's head says, which goes on as it came
	}
	if shown = b.Anchored(shown); len(b.Head) == 0 {
		return nonNil(shown), nil
	}
	return slices.Concat(b.Head, shown), nil
}

// nonNil is a list that is there, even where it is empty.
func nonNil(list []json.RawMessage) []json.RawMessage {
	if list == nil {
		return []json.RawMessage{}
	}
	return list
}

// sameSystem tells whether a window's system prompt says what the client's does, with no more than one breakpoint of
// the client's own. Then the client's bytes stay.
func sameSystem(client, shown json.RawMessage) bool {
	was, err := render.ParseSystem(client)
	if err != nil || bytes.Count(client, []byte(`"cache_control"`)) > 1 {
		return false
	}
	is, err := render.ParseSystem(shown)
	return err == nil && was.Text == is.Text
}

// reminded are a client's messages with the reminders that its window shows; nil where it shows none.
func reminded(b *wire.Body, w *windowed) []json.RawMessage {
	messages, shown := wire.Reminded(b.Format, b.Messages, w.Messages)
	if shown == 0 {
		return nil
	}
	return append(b.Head[:len(b.Head):len(b.Head)], messages...)
}

// tooLong words an error for the client of a model that would not have taken the call either. Other errors stay as they
// are.
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
