// Package reminder builds the messages that remind a model of memories, and places them in a prompt. A reminder is
// bound to the user message that it was recalled for. It comes right before that message, also in later windows, so
// that the beginning of the prompt does not change.
//
// All functions here are pure.
package reminder

import (
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
)

// Memory identifies a version of a memory.
type Memory struct {
	Key         string            `json:"key"`
	Incarnation ident.Incarnation `json:"incarnation"`
	Version     int               `json:"version"`
}

// Recalled is a memory and what a reminder says about it. Shown means that the reminder contains it.
type Recalled struct {
	Memory
	Category, Content string
	Trust, Day        string // of the version: how far to trust it, and its day as 2026-03-05
	Shown             bool
}

// Style is the form of a reminder's text. A bound reminder keeps its style, so that the prompt does not change.
const (
	oldStyle = 0 // only "\n" in a content is indented, so that a content can look like another memory's line
	Style    = 1 // every character that ends a line is written as "\n" and indented
	// TrustStyle is like Style, and says how far to trust a memory and of which day it is.
	TrustStyle = 2
)

var oneLine = strings.NewReplacer("\r\n", "\n  ", "\n", "\n  ", "\r", "\n  ", "\v", "\n  ", "\f", "\n  ", "\u0085", "\n  ",
	"\u2028", "\n  ", "\u2029", "\n  ")

func (m *Recalled) line(style uint8) string {
	content := strings.ReplaceAll(m.Content, "\n", "\n  ")
	if style != oldStyle {
		content = oneLine.Replace(m.Content)
	}
	about := m.Category
	if style >= TrustStyle {
		about += ", " + m.Trust + ", " + m.Day
	}
	return "\n- [" + about + "] " + m.Key + ": " + content
}

// Title begins a reminder.
const Title = "Memories that may matter here. They were recalled, not said in this conversation:"

// maxBytes is the maximum length of a reminder in bytes. A memory that would exceed it is left out, whatever the
// budget.
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
	// A text can have a token more than its parts at each place where two of them meet.
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

// Text returns the reminder for these memories, or "" if there are none.
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

// Message is a message that Mneme adds to a window. If it comes before a user message, it is part of that message:
// policies see its tokens there, it is kept or dropped together with the message, and it disappears if the message is
// shown as an earlier question.
type Message struct {
	ID       string // in reports
	Text     string
	Tokens   uint32
	AsSystem bool // has the authority of a system prompt
	Reason   string
	Place    int32 // in the rendered messages; -1 if it has none
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

// AddWithNext renders the message as part of the entry that is added next.
func (m *Message) AddWithNext(to *render.Builder, f chat.Format) {
	m.Add(to, f)
	to.Join()
}

// AppendSum appends the part of a window's hash that the message determines.
func (m *Message) AppendSum(sums []byte) []byte {
	kind := byte('u')
	if m.AsSystem {
		kind = 'n'
	}
	sum := sha256.Sum256([]byte(m.Text))
	return append(append(sums, kind), sum[:]...)
}

// Shown returns the memories that a reminder shows.
func Shown(memories []Recalled) (out []Memory) {
	for i := range memories {
		if memories[i].Shown {
			out = append(out, memories[i].Memory)
		}
	}
	return slices.Clip(out)
}
