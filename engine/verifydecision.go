package engine

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
)

// decisionChecks is what is known of a tenant's decisions. They are loose: one that is lost is none that is missed.
// Decisions come before what they share.
type decisionChecks struct {
	wanted map[string]incarnation // effectiveKey -> project, as named by decisions
}

func (c *decisionChecks) init() { c.wanted = map[string]incarnation{} }

func (s *space) damagedDecision(key []byte) {
	s.damage().of(incarnation(key[2:]), "")
	s.ownedDecision(key)
}

// ownedDecision tells whether a decision's project lives.
func (s *space) ownedDecision(key []byte) bool {
	pinc := incarnation(key[2:])
	if !s.belongs(pinc) && s.lostProjects == 0 {
		// A window may be answered while its project is being deleted.
		s.wrong("decision", key, foundOrphan, "the decision's project does not exist").of(pinc, "").harmless = true
		return false
	}
	return true
}

func (s *space) decision(key, value []byte) {
	if !s.ownedDecision(key) || string(value) == purged {
		return
	}
	pinc := incarnation(key[2:])
	wrong := func(code, format string, args ...any) *Finding {
		return s.wrong("decision", key, code, format, args...).of(pinc, "")
	}
	d := new(decision)
	if err := json.Unmarshal(value, d); err != nil {
		wrong(foundMalformed, "the decision does not decode: %v", err)
		return
	}
	s.decided(d, key, pinc, wrong)
}

// decided holds a decision against its key and its session, and notes what it names.
func (s *space) decided(d *decision, key []byte, pinc incarnation, wrong func(string, string, ...any) *Finding) {
	at, session := decisionDay(key), incarnation(key[2+8+2:])
	hash, err := hex.DecodeString(d.Effective)
	if err != nil || len(hash) != 16 || day(timeOf(d.At)) != at {
		wrong(foundMalformed, "the decision is of %s, names %q and lies at day %d", timeOf(d.At), d.Effective, at).Session = d.Session
		return
	}
	s.wanted[string(effectiveKey(pinc, at, [16]byte(hash)))] = pinc
	h := s.heads[session]
	switch {
	case h != nil && (h.Turns < d.Extent.Turns || h.Messages < d.Extent.Messages):
		wrong(foundMismatch, "the decision looked at %d turns and %d messages, the session has %d and %d", d.Extent.Turns,
			d.Extent.Messages, h.Turns, h.Messages).Session = d.Session
	case d.Extent.Incarnation != session && session != unborn(d.Session):
		wrong(foundMismatch, "the decision is of session %s and lies with %s", d.Extent.Incarnation, session).Session = d.Session
	}
}

// effective is what many decisions share.
func (s *space) effective(key, value []byte) {
	var rec effective
	s.decode(key, value, &rec)
	s.damagedEffective(key)
}

func (s *space) damagedEffective(key []byte) {
	delete(s.wanted, string(key))
}

func (s *space) finishDecisions() {
	for key, pinc := range s.wanted {
		// A window may be answered while its project is being swept.
		s.wrong("effective", []byte(key), foundMissing, "decisions of day %d name settings that are not there",
			binary.BigEndian.Uint16([]byte(key)[2+8:])).inProject(pinc)
	}
	s.wanted = nil
}
