package decision

import (
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// checks checks a tenant's decisions. They are loose records, so a lost one is no error. Decisions are checked before
// the records that they share.
type checks struct {
	sessions *session.Checks
	purged   map[string]bool // keys of the rows of purged decisions, which must not exist
}

// NewChecks returns the checks of a tenant's decisions, which use the results of those of its sessions.
func NewChecks(sessions *session.Checks) *checks { return &checks{sessions, map[string]bool{}} }

func (c *checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.Decision, Record: c.decision},
		{Kind: records.Effective, Record: c.effective},
		{Kind: records.DecisionRow, Record: c.row},
		{Kind: records.Trace, Record: c.trace},
		{Kind: records.Calibration, Record: c.calibration},
		{Kind: records.DecisionsJob, Record: func(s *verify.Space, it store.Item) { s.Sized(it, 8, "a time") }},
	}
}

// decision checks a decision against its key and its session, and records what it refers to.
func (c *checks) decision(s *verify.Space, it store.Item) {
	pinc, id := splitKey(it.Key)
	s.About(pinc, "")
	switch {
	case !s.Belongs(pinc): // a window may be stored while its project is being deleted
		s.Orphan("the decision's project does not exist").Harmless = true
		return
	case string(it.Value) == purged:
		c.purged[string(id.rowKey(pinc))] = true
		return
	case string(it.Value) == unkept:
		row := id.rowKey(pinc)
		s.Expect(row, s.At(records.DecisionRow, row).InProject(pinc), "the model call has no row for lists")
		return
	case it.Damaged:
		return
	}
	d := new(Record)
	if !s.Decode(it, d) {
		return
	}
	wrong := s.Of(pinc, d.Session)
	key, ok := d.effectiveKey(pinc)
	ok = ok || d.Passed()
	if made := records.TimeOf(d.At); !ok || records.Day(made) != id.day {
		wrong.Malformed("the decision is of %s, names %q and lies at day %d", made, d.Effective, id.day)
		return
	}
	// This is no error if the project was being deleted when the window was stored.
	if !d.Passed() {
		s.Expect(key, s.At(records.Effective, key).InProject(pinc), "decisions of day %d name settings that are not there",
			id.day)
	}
	row := id.rowKey(pinc)
	s.Expect(row, s.At(records.DecisionRow, row).InProject(pinc), "the decision has no row for lists")
	h := c.sessions.Heads[id.session]
	switch {
	case h != nil && (h.Turns < d.Extent.Turns || h.Messages < d.Extent.Messages):
		wrong.Mismatch("the decision looked at %d turns and %d messages, the session has %d and %d", d.Extent.Turns,
			d.Extent.Messages, h.Turns, h.Messages)
	case h != nil && h.Edits < d.Extent.Edits:
		wrong.Mismatch("the decision looked at a session whose messages were changed %d times, they were changed %d times",
			d.Extent.Edits, h.Edits)
	case !d.Extent.Superseded.Sound(d.Extent.Turns, d.Extent.Messages):
		wrong.Malformed("the decision tells of turns superseded %v", d.Extent.Superseded)
	case d.Extent.Incarnation != id.session && id.session != session.Unborn(d.Session):
		wrong.Mismatch("the decision is of session %s and lies with %s", d.Extent.Incarnation, id.session)
	}
}

// row checks the row of a decision, which is a loose record, too.
func (c *checks) row(s *verify.Space, it store.Item) {
	pinc, id := splitRowKey(it.Key)
	s.Came(it.Key)
	s.About(pinc, "")
	row := new(storedRow)
	switch {
	case !s.Belongs(pinc):
		s.Orphan("the row's project does not exist").Harmless = true
	case it.Damaged || !s.Decode(it, row):
	case c.purged[string(it.Key)]:
		s.Of(pinc, row.Session).Mismatch("the row is of a decision that is purged")
	case records.Day(row.At) != id.day:
		s.Of(pinc, row.Session).Malformed("the row is of %s and lies at day %d", row.At, id.day)
	}
}

// effective checks a record that decisions share.
func (c *checks) effective(s *verify.Space, it store.Item) {
	s.Decode(it, new(policy.Effective))
	s.Came(it.Key)
}

func (c *checks) Finish(*verify.Space) {}
