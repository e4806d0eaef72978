package engine

import (
	"encoding/hex"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// decisionChecks are of a tenant's decisions. They are loose: nothing misses one that is lost. Decisions come before
// what they share.
type decisionChecks struct {
	sessions *sessionChecks
	parts    valueParts
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

func (c *decisionChecks) decision(s *space, it store.Item) {
	s.about(incarnation(it.Key[2:]), "")
	c.end(s, c.parts.add(it, 2))
}

// end holds a decision, all of whose parts came, against its key.
func (c *decisionChecks) end(s *space, parts []store.Item) {
	if len(parts) == 0 {
		return
	}
	key, pinc := parts[0].Key, incarnation(parts[0].Key[2:])
	wrong := s.at("decision", key).of(pinc, "")
	missing := missingPart(parts, 2)
	switch {
	case !s.belongs(pinc): // a window may be answered while its project is being deleted
		wrong.orphan("the decision's project does not exist").harmless = true
		return
	case missing == 0:
		wrong.missing("the decision has no beginning: the one that wrote it did not get to its end").harmless = true
		return
	case anyDamaged(parts):
		return
	case missing > 0:
		wrong.missing("part %d of the decision is not there", missing)
		return
	case len(parts) == 1 && string(parts[0].Value) == purged:
		return
	}
	d := new(decision)
	if err := json.Unmarshal(joinBody(parts), d); err != nil {
		wrong.malformed("the decision does not decode from its %d parts: %v", len(parts), err)
		return
	}
	c.decided(s, d, key, wrong.of(pinc, d.Session))
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
	key = effectiveKey(pinc, at, [16]byte(hash))
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
	c.finish(s)
	s.decode(it, new(effective))
	s.came(it.Key)
}

func (c *decisionChecks) finish(s *space) { c.end(s, c.parts.take()) }
