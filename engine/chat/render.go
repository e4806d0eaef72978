package chat

import (
	"crypto/sha256"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Placeholder is the text where Anthropic's format demands one and there is none: the content of an empty message, and
// the user's message that is put before a window that begins with an assistant's.
const Placeholder = "…"

// Fragment is what one message contributes to a window in one format. It is immutable, so any number of windows may
// share it, and it may alias the message's Raw.
type Fragment struct {
	format Format
	role   plan.Role
	// bytes is the message as JSON (for OpenAIResponses: items separated by commas; for Text: the line). In the
	// Anthropic format it is how the message stands alone, empty where it has no blocks.
	bytes []byte
	items int // how many elements of the window bytes are

	// blocks are Anthropic's content blocks, separated by commas, for merging with a neighbour of the same role.
	blocks []byte
	ids    []callID // in blocks, ascending
}

// Sum is the SHA-256 of what the fragment contributes: equal sums, in order, make equal windows.
func (fr *Fragment) Sum() [32]byte {
	h := sha256.New()
	h.Write(fr.bytes)
	h.Write([]byte{0}) // never part of JSON
	h.Write(fr.blocks)
	return [32]byte(h.Sum(nil))
}

// callID is a call's id inside blocks: blocks[start:end] is its JSON string.
type callID struct {
	id         string
	start, end int
	call       bool // false: a result's
}

// Size is the memory a fragment holds on to, in bytes, for a cache to account.
func (fr *Fragment) Size() int { return 128 + cap(fr.bytes) + cap(fr.blocks) + len(fr.ids)*48 }

// Options are what a rendering depends on beside the message.
type Options struct {
	Turn uint32 // Text: the number of the message's turn
	Tool string // Text: for a tool's message, the name of the tool it answers for
}

// Render renders a message in a format. A message that was posted in the same format keeps its bytes, without Mneme's
// own fields, unless a rule of the format or a sender's name requires a change.
func Render(f Format, m *Message, opts Options) Fragment {
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
		return renderResponses(m)
	}
	return renderOpenAI(m)
}

// posted returns the message's own bytes without Mneme's fields.
func (m *Message) posted() []byte {
	o, _ := readObject(m.Raw)
	return o.without(isOwn)
}

// appendRole appends the start of a message object up to its content's value.
func appendRole(dst []byte, role string) []byte {
	dst = append(dst, `{"role":"`...)
	dst = append(dst, role...)
	return append(dst, `","content":`...)
}

// appendTextPart appends a content part that is a text.
func appendTextPart(dst []byte, typ, text string) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, typ...)
	dst = append(dst, `","text":`...)
	return append(AppendString(dst, text), '}')
}
