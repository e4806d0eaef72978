package render

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/rawjson"
)

// noHistory is the flat text of an empty history.
const noHistory = "(first turn — no prior context)"

// Window is the output of a Builder.
type Window struct {
	// Buf is the buffer that was passed to Reset, with the window appended.
	Buf []byte
	// Messages is the JSON array of messages (of items, for OpenAIResponses), a slice of Buf; nil for Text.
	Messages []byte
	// Text is the flat text, a slice of Buf; nil for the other formats.
	Text []byte
	// System is Anthropic's system prompt: the request's and the notices, separated by blank lines; "" for the others.
	System string
	// SystemBlocks is Anthropic's system prompt as a JSON array, if the request's is one; otherwise nil.
	SystemBlocks []byte
	// Rendered is the number of elements of Messages, or of lines of Text.
	Rendered int
}

// Builder joins fragments and notices, in order, into a window. The zero Builder is ready for Reset. A Builder can make
// any number of windows, one at a time.
type Builder struct {
	// Reasoning shows the reasoning of assistants in OpenAIChat, for providers that want it back.
	Reasoning bool

	format   Format
	buf      []byte
	start    int // start of the window in buf
	system   []byte
	blocks   [][]byte // Anthropic's system prompt if the request's is a list; empty if it is a text
	rendered int
	place    int // index in Messages of the latest addition; -1 if it has none
	run      anthropicRun
	ids      windowIDs // OpenAIResponses
	body     int       // Text: start of the part after the request's system prompt
	item     int32
	thinking int // thinking blocks so far

	// Edits are applied to the next window that is built.
	Edits Edits
	// Parts are the parts of the messages so far, without Anthropic's system prompt. Their memory is reused.
	Parts []Placed
	// Marks are the posted breakpoints so far, including those that the edits remove: whether their ttl is an hour.
	Marks []bool
	// Cited and Uncited report that documents so far have citations enabled, and that some lost them.
	Cited, Uncited bool
}

// Reset starts a window in a format. The window is appended to buf. system is the request's system prompt; it comes
// first.
func (b *Builder) Reset(f Format, buf []byte, system SystemPrompt) {
	b.format, b.buf, b.start, b.rendered = f, buf, len(buf), 0
	b.system, b.blocks = b.system[:0], b.blocks[:0]
	b.run.reset()
	b.ids.reset(shortID)
	b.item, b.thinking, b.Parts, b.Marks = -1, 0, b.Parts[:0], b.Marks[:0]
	b.Cited, b.Uncited = false, false
	if f == Text {
		b.buf = append(b.buf, system.Text...)
		if system.Text != "" {
			b.buf = append(b.buf, "\n\n"...)
		}
		b.body = len(b.buf)
		return
	}
	b.buf = append(b.buf, '[')
	b.putSystem(&system)
}

// Place returns the index in Messages of the latest addition, or of its first element. It is -1 if it has none there:
// Anthropic's notices are in the system prompt, and flat text has no messages.
func (b *Builder) Place() int { return b.place }

// Join makes the latest addition part of the entry that is added next.
func (b *Builder) Join() { b.item-- }

// Notice adds a system-class text: a summary, or memories. In Anthropic's format it becomes part of the system prompt.
func (b *Builder) Notice(text string) {
	b.item++
	b.notice(text)
}

// roleNotice is the role of a notice in the hash of a window.
const roleNotice = 3

var fillerDigest = prefix.Text(Placeholder)

// filler records a block that only the format requires.
func (b *Builder) filler(role string) {
	p := Placed{Item: -1, Message: int32(b.rendered)}
	p.Digest = fillerDigest.As(1)
	if role == "assistant" {
		p.Digest = fillerDigest.As(2)
	}
	b.Parts = append(b.Parts, p)
}

func (b *Builder) notice(text string) {
	b.place = -1
	if b.format != AnthropicMessages {
		b.Parts = append(b.Parts, Placed{prefix.Part{Digest: prefix.Text(text).As(roleNotice)}, b.item,
			int32(b.rendered)})
	}
	switch b.format {
	case AnthropicMessages:
		if len(b.system) > 0 {
			b.system = append(b.system, "\n\n"...)
		}
		b.system = append(b.system, text...)
		if len(b.blocks) > 0 {
			b.blocks = append(b.blocks, append(rawjson.AppendString([]byte(`{"type":"text","text":`), text), '}'))
		}
	case Text:
		b.separate(b.body, '\n')
		b.buf = append(b.buf, text...)
		b.rendered++
	default:
		b.separate(b.start+1, ',')
		b.buf = append(rawjson.AppendString(AppendRole(b.buf, "system"), text), '}')
		b.place = b.rendered
		b.rendered++
	}
}

// Add adds a message's fragment, which must be in the window's format. seq is the message's number in its session. If
// the format does not allow the id of a call to repeat, seq makes a repeated id unique.
func (b *Builder) Add(fr *Fragment, seq uint64) {
	b.item++
	if b.format == AnthropicMessages {
		b.run.add(b, fr, seq)
		b.place = b.rendered // the message being assembled is counted when it ends
		return
	}
	b.place = -1
	if fr.Items == 0 {
		return
	}
	if b.format == Text {
		b.separate(b.body, '\n')
	} else {
		b.separate(b.start+1, ',')
		b.place = b.rendered
	}
	b.ids.resolve(fr, seq)
	b.note(fr, &b.ids, b.rendered)
	b.room(len(fr.Bytes))
	b.rendered += fr.Items
	if len(fr.IDs) > 0 {
		b.buf = b.ids.append(b.buf, fr, fr.Bytes)
		return
	}
	b.buf = append(b.buf, fr.Bytes...)
	if b.Reasoning && fr.Reasoning != nil {
		b.buf = append(b.buf[:len(b.buf)-1], `,"reasoning_content":`...)
		b.buf = append(rawjson.AppendString(b.buf, *fr.Reasoning), '}')
		b.Parts[len(b.Parts)-1].Digest.Mix(prefix.Text(*fr.Reasoning))
	}
}

// room doubles the buffer if there is no room for n more bytes. append alone grows long buffers by a quarter, and would
// copy a window four times while it is built.
func (b *Builder) room(n int) {
	if cap(b.buf)-len(b.buf) < n {
		b.buf = slices.Grow(b.buf, max(n, cap(b.buf)))
	}
}

// Finish ends the window and returns it.
func (b *Builder) Finish() Window {
	w := Window{}
	switch b.format {
	case Text:
		if len(b.buf) == b.body {
			b.buf = append(b.buf, noHistory...)
		}
		w.Text = b.buf[b.start:]
	case AnthropicMessages:
		b.run.end(b)
		w.System, w.SystemBlocks = string(b.system), b.systemBlocks()
		fallthrough
	default:
		b.buf = append(b.buf, ']')
		w.Messages = b.buf[b.start:]
	}
	w.Buf, w.Rendered = b.buf, b.rendered
	b.buf = nil // from here on, the buffer belongs to the caller
	return w
}

// separate appends a separator, except before the first element, which begins at from.
func (b *Builder) separate(from int, with byte) {
	if len(b.buf) > from {
		b.buf = append(b.buf, with)
	}
}
