package prompt

import (
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/render"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Kept is what a decision stores of its window for the turns that continue it.
type Kept struct {
	Format  render.Format
	Pending []json.RawMessage // as posted, in Format
	End     prefix.Place
	Made    map[int]prefix.Place // where pending messages with thinking were made, by index
}

// Trace determines where each reply in a turn was made. posted are the messages as posted, in a format. A message that
// names a decision was made from that decision's window. If turn is the decision for the whole turn, the reply after
// its pending messages was made from its window, and each later reply from that window and the messages added to it;
// the decision knows the places of its pending messages. find returns the decision with an id, or nil if it is no
// longer stored.
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

// tracing is the state while going through the messages of a turn.
type tracing struct {
	format render.Format
	posted []json.RawMessage
	turn   *Kept       // the decision for the whole turn; nil if there is none
	behind int         // the number of posted messages that were its pending ones; -1 if the posted ones are different
	at     prefix.Walk // unknown if it is not known where the next message was made
	goesOn bool        // the next message was made by adding to this one
	begun  bool        // the messages after the pending ones were reached
}

// reach advances to a message.
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
	case t.behind < 0 && reply: // the first reply, however the previous turn was posted
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

// Same reports whether two lists have the same message at an index, ignoring Mneme's own fields.
func Same(a, b []json.RawMessage, at int) bool {
	return at < len(a) && at < len(b) && prefix.Digest(chat.WithoutOwn(a[at])) == prefix.Digest(chat.WithoutOwn(b[at]))
}

// same reports whether the turn begins with these messages, ignoring Mneme's own fields.
func (t *tracing) same(pending []json.RawMessage) bool {
	for i := range pending {
		if !Same(pending, t.posted, i) {
			return false
		}
	}
	return true
}
