package chat

import (
	"bytes"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Options are what a rendering depends on besides the message.
type Options struct {
	Turn uint32 // Text: the number of the message's turn
	Tool string // Text: for a tool's message, the name of the tool it answers for
	Call string // OpenAIResponses: for a tool's message, the type of the item that it answers; "" if unknown
}

// Render renders a message in a format. A message that was posted in the same format keeps its bytes, without Mneme's
// own fields, unless a rule of the format or a sender's name requires a change.
func Render(f Format, m *Message, opts Options) Fragment {
	fr := renderMessage(f, m, opts)
	know(&fr)
	fr.Uncited = m.uncited && f == AnthropicMessages
	return fr
}

// JSON returns a message by itself: an object, or items separated by commas. It is empty if the format shows nothing of
// the message, and flat text for Text. It must not be changed.
func JSON(f Format, m *Message, opts Options) []byte {
	fr := renderMessage(f, m, opts)
	return fr.Bytes
}

func renderMessage(f Format, m *Message, opts Options) Fragment {
	if f == Text {
		return renderText(m, opts)
	}
	if m.Kind == plan.KindA2A {
		named := m.WithText(m.Shown())
		named.Kind = plan.KindChat
		m = &named
	}
	switch f {
	case AnthropicMessages:
		return renderAnthropic(m)
	case OpenAIResponses:
		return renderResponses(m, opts)
	}
	return renderOpenAI(m)
}

// WithoutOwn returns a posted message, which must be valid, without Mneme's own fields.
func WithoutOwn(raw json.RawMessage) []byte {
	o, bad := readObject(bytes.TrimSpace(raw))
	if bad != nil {
		return raw
	}
	return o.Without(isOwn)
}

// posted returns the message's own object without Mneme's fields.
func (m *Message) posted() object {
	o, _ := readObject(m.Raw)
	cut := isOwn
	if m.Format == OpenAIChat {
		cut = isLeftOutOfChat
	}
	raw := o.Without(cut)
	if len(raw) < len(o.Raw) {
		o, _ = readObject(raw)
	}
	return o
}
