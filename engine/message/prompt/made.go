package prompt

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Kept is what a decision says of its window to those who go on from it.
type Kept struct {
	Format  render.Format
	Pending []json.RawMessage // as posted, in Format
	End     prefix.Place
	Made    map[int]prefix.Place // of pending messages that think, by index
}

// Trace says where each reply among the messages of a turn was made. posted are the messages as they came, in a format.
// A message that names a decision was made from its window. A decision that is named for the whole turn made what
// stands behind its own pending messages, and each further reply was made by adding to that; of the pending ones it
// knows where they were made. find gives a decision that a message names, and nil where there is none any more.
func Trace(format render.Format, posted []json.RawMessage, messages []chat.Parsed, turn *Kept,
	find func(id string) *Kept) {
	t := tracing{format: format, posted: posted, behind: -1}
	if turn != nil && turn.Format == format {
		t.turn = turn
		if t.same(turn.Pending) {
			t.behind = len(turn.Pending)
		}
	}
	for i := range messages {
		m := &messages[i]
		t.reach(m, find)
		if !t.at.Known() {
			continue
		}
		if m.Role == plan.RoleAssistant {
			m.Made = t.at.Place
		}
		if !t.goesOn {
			t.at = prefix.Walk{}
			continue
		}
		fr := chat.Render(format, &m.Message, chat.Options{})
		for j := range fr.Parts {
			t.at.Add(&fr.Parts[j].Part)
		}
	}
}

// tracing is a walk along the messages of a turn.
type tracing struct {
	format render.Format
	posted []json.RawMessage
	turn   *Kept       // of the whole turn; nil: none is named
	behind int         // how many posted messages were its pending ones; -1: they are others
	at     prefix.Walk // not known: nobody says how the next message was made
	goesOn bool        // the next message was made by adding to this one
	begun  bool        // behind was reached
}

// reach comes to a message.
func (t *tracing) reach(m *chat.Parsed, find func(id string) *Kept) {
	reply := m.Role == plan.RoleAssistant
	if m.Decision != "" && reply {
		if kept := find(m.Decision); kept != nil && kept.Format == t.format {
			t.at, t.goesOn, t.begun = prefix.From(kept.End), len(kept.Pending) == m.Index && t.same(kept.Pending), true
			return
		}
	}
	switch {
	case t.turn == nil || t.begun:
	case t.behind < 0 && reply: // the first reply, however the turn before it was posted
		t.at, t.goesOn, t.begun = prefix.From(t.turn.End), false, true
	case t.behind >= 0 && m.Index >= t.behind:
		t.at, t.goesOn, t.begun = prefix.From(t.turn.End), true, true
	case t.behind >= 0:
		t.at, t.goesOn = prefix.Walk{}, false
		if place, ok := t.turn.Made[m.Index]; ok {
			t.at = prefix.From(place)
		}
	}
}

// Same tells whether two lists have the same message at an index, whatever Mneme's own fields say.
func Same(a, b []json.RawMessage, at int) bool {
	return at < len(a) && at < len(b) && prefix.Digest(chat.WithoutOwn(a[at])) == prefix.Digest(chat.WithoutOwn(b[at]))
}

// same tells whether the turn begins with these messages, whatever Mneme's own fields say.
func (t *tracing) same(pending []json.RawMessage) bool {
	for i := range pending {
		if !Same(pending, t.posted, i) {
			return false
		}
	}
	return true
}
