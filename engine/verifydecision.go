package engine

import (
	"encoding/hex"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// decisionChecks are of a tenant's decisions. They are loose: nothing misses one that is lost. Decisions come before
// what they share.
type decisionChecks struct {
	sessions *sessionChecks
}

func newDecisionChecks(sessions *sessionChecks) *decisionChecks {
	return &decisionChecks{sessions: sessions}
}

func (c *decisionChecks) checks() []recordCheck {
	return []recordCheck{
		{kind: "decision", record: c.decision},
		{kind: "effective", record: c.effective},
		{kind: "job_decisions", record: func(s *space, it store.Item) { s.sized(it, 8, "a time") }},
	}
}

// decision holds a decision against its key.
func (c *decisionChecks) decision(s *space, it store.Item) {
	pinc := incarnation(it.Key[2:])
	s.about(pinc, "")
	switch {
	case !s.belongs(pinc): // a window may be answered while its project is being deleted
		s.orphan("the decision's project does not exist").harmless = true
		return
	case it.Damaged || string(it.Value) == purged:
		return
	}
	d := new(decision)
	if s.decode(it, d) {
		c.decided(s, d, it.Key, s.of(pinc, d.Session))
	}
}

// decided holds a decision against its key and its session, and notes what it names.
func (c *decisionChecks) decided(s *space, d *decision, key []byte, wrong subject) {
	pinc, at, session := incarnation(key[2:]), decisionDay(key), incarnation(key[2+8+2:])
	hash, err := hex.DecodeString(d.Effective)
	if err != nil || len(hash) != 16 || day(timeOf(d.At)) != at {
		wrong.malformed("the decision is of %s, names %q and lies at day %d", timeOf(d.At), d.Effective, at)
		return
	}
	// A window may be answered while its project is being swept, so this counts for nothing there.
	key = kindEffective.Key(pinc, at, [16]byte(hash))
	s.expect(key, s.at("effective", key).inProject(pinc), "decisions of day %d name settings that are not there", at)
	h := c.sessions.heads[session]
	switch {
	case h != nil && (h.Turns < d.Extent.Turns || h.Messages < d.Extent.Messages):
		wrong.mismatch("the decision looked at %d turns and %d messages, the session has %d and %d", d.Extent.Turns,
			d.Extent.Messages, h.Turns, h.Messages)
	case d.Extent.Incarnation != session && session != unborn(d.Session):
		wrong.mismatch("the decision is of session %s and lies with %s", d.Extent.Incarnation, session)
	}
}

// effective is what many decisions share.
func (c *decisionChecks) effective(s *space, it store.Item) {
	s.decode(it, new(effective))
	s.came(it.Key)
}

func (c *decisionChecks) finish(*space) {}
