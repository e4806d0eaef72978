package catalogue

import (
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// Match is the message of a session that matches a text best.
type Match struct {
	MessageID string  `json:"message_id"`
	Turn      uint32  `json:"turn"`
	Role      string  `json:"role"`
	Text      string  `json:"text"` // an excerpt
	Score     float64 `json:"score"`
}

// found says why a session matches the text of a query.
type found struct {
	named bool        // its id or title contains the text
	hit   *recall.Hit // its best message; nil if none
}

// maxMatches is how many matching messages of the project are considered, best first.
const maxMatches = 100

// match searches the messages of all sessions for the text.
func (l *lister) match() error {
	l.matches = map[string]*found{}
	if l.q.Text == "*" { // recall would return the newest messages
		return nil
	}
	got, err := l.svc.recall.Recall(l.ctx, l.c, l.project.ID,
		recall.Query{Query: l.q.Text, Limit: maxMatches, Scope: "transcript", Background: true,
			Namespace: l.q.Namespace})
	if err != nil {
		return err
	}
	for i := range got.Data {
		hit := &got.Data[i] // the best of a session comes first
		if l.matches[hit.SessionID] == nil {
			l.matches[hit.SessionID] = &found{hit: hit}
		}
	}
	return nil
}

// found reports whether a session matches the text.
func (l *lister) found(h *session.NamedHead) bool {
	text := strings.ToLower(l.q.Text)
	f := l.matches[h.ID]
	if strings.Contains(strings.ToLower(h.ID), text) || strings.Contains(strings.ToLower(h.Title), text) {
		if f == nil {
			f = new(found)
			l.matches[h.ID] = f
		}
		f.named = true
	}
	return f != nil
}

// weight returns how well a session matches. A match in its id or title ranks above all messages.
func (f *found) weight() uint64 {
	const one = 1 << 32
	n := uint64(0)
	if f.hit != nil {
		n = uint64(max(0, f.hit.Score) * one)
	}
	if f.named {
		n += 1 << 48
	}
	return n
}

// match returns the best message in the form of a list.
func (f *found) match() *Match {
	if f == nil || f.hit == nil {
		return nil
	}
	h := f.hit
	return &Match{MessageID: h.MessageID, Turn: h.Turn, Role: h.Role, Text: around(h), Score: h.Score}
}

// shownText is how much of a message a list shows, in bytes.
const shownText = 240

// around returns the part of a hit's text around the first of its words.
func around(h *recall.Hit) string {
	text, from := h.Content, len(h.Content)
	lower := strings.ToLower(text)
	for _, t := range h.Why.Terms {
		if at := strings.Index(lower, strings.ToLower(t.Term)); at >= 0 {
			from = min(from, at)
		}
	}
	const before = shownText / 4
	if from == len(text) || from <= before || len(lower) != len(text) { // or converting to lower case moved the offsets
		from = 0
	} else {
		from -= before
	}
	return cut(text[from:])
}

// cut returns the beginning of a text on one line.
func cut(text string) string {
	more := len(text) > shownText
	if more {
		text = text[:shownText]
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if more {
		text += "…"
	}
	return text
}
