package window

import (
	"encoding/hex"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/policy"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// decisionChecks are of a tenant's decisions. They are loose: nothing misses one that is lost. Decisions come before
// what they share.
type decisionChecks struct {
	sessions *session.Checks
}

func NewDecisionChecks(sessions *session.Checks) *decisionChecks {
	return &decisionChecks{sessions: sessions}
}

func (c *decisionChecks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.Decision, Record: c.decision},
		{Kind: records.Effective, Record: c.effective},
		{Kind: records.DecisionsJob, Record: func(s *verify.Space, it store.Item) { s.Sized(it, 8, "a time") }},
	}
}

// decision holds a decision against its key.
func (c *decisionChecks) decision(s *verify.Space, it store.Item) {
	pinc := ident.Incarnation(it.Key[2:])
	s.About(pinc, "")
	switch {
	case !s.Belongs(pinc): // a window may be answered while its project is being deleted
		s.Orphan("the decision's project does not exist").Harmless = true
		return
	case it.Damaged || string(it.Value) == purged:
		return
	}
	d := new(decision)
	if s.Decode(it, d) {
		c.decided(s, d, it.Key, s.Of(pinc, d.Session))
	}
}

// decided holds a decision against its key and its session, and notes what it names.
func (c *decisionChecks) decided(s *verify.Space, d *decision, key []byte, wrong verify.Subject) {
	pinc, at, ses := ident.Incarnation(key[2:]), decisionDay(key), ident.Incarnation(key[2+8+2:])
	hash, err := hex.DecodeString(d.Effective)
	if err != nil || len(hash) != 16 || records.Day(records.TimeOf(d.At)) != at {
		wrong.Malformed("the decision is of %s, names %q and lies at day %d", records.TimeOf(d.At), d.Effective, at)
		return
	}
	// A window may be answered while its project is being swept, so this counts for nothing there.
	key = records.Effective.Key(pinc, at, [16]byte(hash))
	s.Expect(key, s.At(records.Effective, key).InProject(pinc), "decisions of day %d name settings that are not there", at)
	h := c.sessions.Heads[ses]
	switch {
	case h != nil && (h.Turns < d.Extent.Turns || h.Messages < d.Extent.Messages):
		wrong.Mismatch("the decision looked at %d turns and %d messages, the session has %d and %d", d.Extent.Turns,
			d.Extent.Messages, h.Turns, h.Messages)
	case d.Extent.Incarnation != ses && ses != session.Unborn(d.Session):
		wrong.Mismatch("the decision is of session %s and lies with %s", d.Extent.Incarnation, ses)
	}
}

// effective is what many decisions share.
func (c *decisionChecks) effective(s *verify.Space, it store.Item) {
	s.Decode(it, new(policy.Effective))
	s.Came(it.Key)
}

func (c *decisionChecks) Finish(*verify.Space) {}
