package chat

// noHistory is the flat text of an empty history.
const noHistory = "(first turn — no prior context)"

// Window is what a Builder made.
type Window struct {
	// Buf is the buffer given to Reset with the window appended to it.
	Buf []byte
	// Messages is the JSON array of messages (of items, for OpenAIResponses), a part of Buf; nil for Text.
	Messages []byte
	// Text is the flat text, a part of Buf; nil for the other formats.
	Text []byte
	// System is Anthropic's system prompt: the request's and the notices, separated by blank lines; "" for the others.
	System string
	// Rendered counts the elements of Messages, or the lines of Text.
	Rendered int
}

// Builder joins fragments and notices, in window order, to one window. The zero Builder is ready for Reset; one
// Builder may make any number of windows, one at a time.
type Builder struct {
	format   Format
	buf      []byte
	start    int // where the window begins in buf
	system   []byte
	rendered int
	run      anthropicRun
	body     int // Text: where the part after the request's system prompt begins
}

// Reset begins a window in a format, appended to buf. A non-empty system is the request's own, put in front.
func (b *Builder) Reset(f Format, buf []byte, system string) {
	b.format, b.buf, b.start, b.rendered = f, buf, len(buf), 0
	b.system = b.system[:0]
	b.run.reset()
	if f == Text {
		if b.buf = append(b.buf, system...); system != "" {
			b.buf = append(b.buf, "\n\n"...)
		}
		b.body = len(b.buf)
		return
	}
	b.buf = append(b.buf, '[')
	if system != "" {
		b.Notice(system)
	}
}

// Notice adds a system-class text: a summary, memories, a marker. Anthropic's format moves it to the system prompt.
func (b *Builder) Notice(text string) {
	switch b.format {
	case AnthropicMessages:
		if len(b.system) > 0 {
			b.system = append(b.system, "\n\n"...)
		}
		b.system = append(b.system, text...)
	case Text:
		b.separate(b.body, '\n')
		b.buf = append(b.buf, text...)
		b.rendered++
	default:
		b.separate(b.start+1, ',')
		b.buf = append(AppendString(appendRole(b.buf, "system"), text), '}')
		b.rendered++
	}
}

// Add adds a message's fragment, which must be of the window's format. seq is the message's number in its session.
// Where the format forbids that the id of a call repeats, seq makes a repeated id unique.
func (b *Builder) Add(fr *Fragment, seq uint64) {
	if b.format == AnthropicMessages {
		b.run.add(b, fr, seq)
		return
	}
	if fr.items == 0 {
		return
	}
	if b.format == Text {
		b.separate(b.body, '\n')
	} else {
		b.separate(b.start+1, ',')
	}
	b.buf = append(b.buf, fr.bytes...)
	b.rendered += fr.items
}

// Finish ends the window.
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
		w.System = string(b.system)
		fallthrough
	default:
		b.buf = append(b.buf, ']')
		w.Messages = b.buf[b.start:]
	}
	w.Buf, w.Rendered = b.buf, b.rendered
	b.buf = nil // the buffer belongs to the caller from here on
	return w
}

// separate appends a separator, except before the first element, which begins at from.
func (b *Builder) separate(from int, with byte) {
	if len(b.buf) > from {
		b.buf = append(b.buf, with)
	}
}
