package transcript

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/message/prefix"
	"github.com/seed-0906e6bc/mneme/engine/message/reminder"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Posted is one message of a file, with the fields it inherited from its turn.
type Posted struct {
	Format            string
	JSON              json.RawMessage
	Agent, Delegation string // if empty, those of the message are used
	Made              *prefix.Place
	Reminder          *reminder.Bound // nil if none
	SourceIDs         []string        // see Header.Sources
	At                time.Time       // zero means the time at which it is stored
	Removed           bool            // by a client
	Turn              uint32
	Index             int // in the turn
}

// Post adds a message of a file to a turn, and returns what was not stored as it was in the file.
func (t *Turn) Post(parse Parser, p *Posted) ([]chat.Skipped, error) {
	format, err := ParseFormat(p.Format, false)
	if err != nil {
		return nil, err
	}
	parsed, left, err := parse(format, Elements(format, p.JSON))
	if err != nil {
		if known, ok := errors.AsType[*fault.Error](err); ok {
			for i := range known.Fields {
				known.Fields[i].Index = &p.Index
			}
		}
		return nil, err
	}
	if err := checkSources(p.SourceIDs); err != nil {
		return nil, err
	}
	var skipped []chat.Skipped
	for _, s := range left {
		if s.Code != chat.CodeSystemNotStored {
			s.Turn, s.Index = p.Turn, p.Index
			skipped = append(skipped, s)
		}
	}
	for _, m := range parsed {
		m.Index = p.Index
		if p.Agent != "" {
			m.Agent = p.Agent
		}
		if p.Delegation != "" {
			m.Delegation = p.Delegation
		}
		if p.Made != nil {
			m.Made = *p.Made
		}
		m.CreatedAt = p.At
		if p.Reminder != nil && (m.Role == plan.RoleUser || p.Reminder.Before > 0) {
			t.bind(len(t.Messages), *p.Reminder)
		}
		if p.Removed {
			if t.Removed == nil {
				t.Removed = map[int]bool{}
			}
			t.Removed[len(t.Messages)] = true
		}
		if len(p.SourceIDs) > 0 {
			t.name(len(t.Messages), p.SourceIDs)
		}
		t.Messages = append(t.Messages, m)
	}
	return skipped, nil
}

// Filed returns a stored message's reminder in the form that files use. Files number only stored messages, without the
// absent ones.
func (h *Header) Filed(absent Runs) *reminder.Bound {
	if h.Reminder == nil {
		return nil
	}
	b := *h.Reminder
	if b.Before == h.Seq {
		b.Before = 0
	}
	b.Before -= absent.Messages(b.Before)
	return &b
}
