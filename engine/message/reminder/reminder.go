// Package reminder makes the messages that remind a model of memories, and says where they stand in a prompt. A
// reminder is bound to the user's message that it was recalled for: it stands right before that message, and stands
// there again in later windows, so that a prompt goes on as it began.
//
// Everything here is a pure function of its arguments.
package reminder

import (
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// Memory names a version of a memory.
type Memory struct {
	Key         string            `json:"key"`
	Incarnation ident.Incarnation `json:"incarnation"`
	Version     int               `json:"version"`
}

// Recalled is a memory with what a reminder says of it. Shown says that the reminder does.
type Recalled struct {
	Memory
	Category, Content string
	Shown             bool
}

// Style is the form of a reminder's text. A bound reminder keeps its style, so that a prompt goes on as it began.
const (
	oldStyle = 0 // only "\n" in a content is indented, so that a content can look like another memory's line
	Style    = 1 // every character that ends a line is written as "\n" and indented
)

var oneLine = strings.NewReplacer("\r\n", "\n  ", "\n", "\n  ", "\r", "\n  ", "\v", "\n  ", "\f", "\n  ", "\u0085", "\n  ",
	"\u2028", "\n  ", "\u2029", "\n  ")

func (m *Recalled) line(style uint8) string {
	content := strings.ReplaceAll(m.Content, "\n", "\n  ")
	if style != oldStyle {
		content = oneLine.Replace(m.Content)
	}
	return "\n- [" + m.Category + "] " + m.Key + ": " + content
}

// Title begins a reminder.
const Title = "Memories that may matter here. They were recalled, not said in this conversation:"

// maxBytes bounds a reminder: a memory that makes it longer is left out, whatever the budget.
const maxBytes = 64 << 10

// Fit chooses the memories that fit into a number of tokens, in order, and notes which these are. count counts a text,
// whole a text as a message. Where no memory fits, the text is empty.
func Fit(memories []Recalled, style uint8, room uint64, count, whole func(string) uint32) (text string, tokens uint32) {
	text, used, shown := Title, uint64(whole(Title)), 0
	for i := range memories {
		m := &memories[i]
		m.Shown = false
		line := m.line(style)
		if len(text)+len(line) > maxBytes {
			continue
		}
		if n := uint64(count(line)); used+n <= room {
			text, used, m.Shown = text+line, used+n, true
			shown++
		}
	}
	// A text may have a token more than its parts, where two of them meet.
	tokens = whole(text)
	for i := len(memories) - 1; i >= 0 && uint64(tokens) > room; i-- {
		if m := &memories[i]; m.Shown {
			text = strings.Replace(text, m.line(style), "", 1)
			tokens, m.Shown = whole(text), false
			shown--
		}
	}
	if shown == 0 {
		return "", 0
	}
	return text, tokens
}

// Text is a reminder of these memories, "" where there are none.
func Text(memories []Recalled, style uint8) string {
	if len(memories) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(Title)
	for i := range memories {
		b.WriteString(memories[i].line(style))
	}
	return b.String()
}

// Message is a message of Mneme's own in a window. Where it stands before a user's message, it is a part of that: policies see
// its tokens there, it stays and goes with the message, and it is gone where the message has become an earlier question.
type Message struct {
	ID       string // in reports
	Text     string
	Tokens   uint32
	AsSystem bool // shown with a system prompt's authority
	Reason   string
	Place    int32 // in the rendered messages; -1: it has none
}

// Add renders the message as an entry of the window.
func (m *Message) Add(to *render.Builder, f chat.Format) {
	if m.AsSystem {
		to.Notice(m.Text)
	} else {
		said := chat.Said(f, m.Text)
		to.Add(&said, 0)
	}
	m.Place = int32(to.Place())
}

// AddWithNext renders the message as a part of the entry that is added next.
func (m *Message) AddWithNext(to *render.Builder, f chat.Format) {
	m.Add(to, f)
	to.Join()
}

// AppendSum appends what a window's hash knows of the message.
func (m *Message) AppendSum(sums []byte) []byte {
	kind := byte('u')
	if m.AsSystem {
		kind = 'n'
	}
	sum := sha256.Sum256([]byte(m.Text))
	return append(append(sums, kind), sum[:]...)
}

// Shown are the memories that a reminder shows.
func Shown(memories []Recalled) (out []Memory) {
	for i := range memories {
		if memories[i].Shown {
			out = append(out, memories[i].Memory)
		}
	}
	return slices.Clip(out)
}
