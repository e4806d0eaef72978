package transcript

import (
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prompt"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Kept is what a decision keeps for turns that refer to it.
type Kept struct {
	prompt.Kept
	Session string
	// Reminder is what the decision's window showed before a message; nil if nothing. At is the index of that message
	// among the pending ones, or -1 if the message was stored; Reminder.Before then has its number.
	Reminder *reminder.Bound
	At       int
}

// Making describes which decisions the replies of a turn were made from. DecisionID applies to replies that do not name
// their own.
type Making struct {
	Session, Format, DecisionID string
	Posted                      []json.RawMessage
	Field                       string // the field that contains the messages
}

// maxNamed is the maximum number of decisions that the messages of one turn may name.
const maxNamed = 64

// Trace records, for the turn's replies that name a decision, the prompt they were made from, and, for its questions,
// the reminder shown before them. find returns nil for a decision that is no longer stored; it is ignored. Trace
// returns invalid_value for a decision of another session, and too_long.
func (in *Making) Trace(t *Turn, find func(id string) (*Kept, error)) error {
	messages := t.Messages
	named := map[string]*prompt.Kept{}
	look := func(field, id string) error {
		if _, ok := named[id]; ok || id == "" {
			return nil
		}
		if len(named) == maxNamed {
			return fault.InvalidField(field, "too_long", "may name at most %d decisions", maxNamed)
		}
		kept, err := find(id)
		named[id] = nil
		if err != nil || kept == nil {
			return err
		}
		if kept.Session != in.Session {
			return fault.InvalidField(field, "invalid_value", "decision %q is of session %q", id, kept.Session)
		}
		named[id] = &kept.Kept
		t.remind(kept, in.Posted)
		return nil
	}
	err := look("decision_id", in.DecisionID)
	for i := 0; i < len(messages) && err == nil; i++ {
		err = look(in.Field, messages[i].Decision)
	}
	if err != nil || len(named) == 0 {
		return err
	}
	format, err := ParseFormat(in.Format, false)
	if err == nil {
		prompt.Trace(format, in.Posted, messages, named[in.DecisionID], func(id string) *prompt.Kept { return named[id] })
	}
	return err
}

// remind binds the reminder that a decision's window showed before a message to that message of the turn or, if the
// message was stored already, to the turn's first message. A message keeps its first reminder.
func (t *Turn) remind(kept *Kept, posted []json.RawMessage) {
	if kept.Reminder == nil {
		return
	}
	at := 0
	if kept.At >= 0 {
		at = slices.IndexFunc(t.Messages, func(m chat.Parsed) bool {
			return m.Index == kept.At && m.Role == plan.RoleUser && prompt.Same(kept.Pending, posted, kept.At)
		})
	}
	if _, taken := t.Reminders[at]; taken || at < 0 || at >= len(t.Messages) {
		return
	}
	b := *kept.Reminder
	b.Of, b.Asked = 0, 0
	if kept.At >= 0 {
		b.Before = 0
	}
	t.bind(at, b)
}

// bind sets the reminder of the message with index at.
func (t *Turn) bind(at int, b reminder.Bound) {
	if t.Reminders == nil {
		t.Reminders = map[int]reminder.Bound{}
	}
	t.Reminders[at] = b
}
