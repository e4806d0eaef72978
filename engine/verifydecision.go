package engine

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// decisionChecks is what is known of a tenant's decisions. They are loose: one that is lost is none that is missed.
// Decisions come before what they share.
type decisionChecks struct {
	wanted map[string]incarnation // effectiveKey -> project, as named by decisions
	parts  []store.Item           // of the decision at hand
}

func (c *decisionChecks) init() { c.wanted = map[string]incarnation{} }

func (s *space) decision(key, value []byte) { s.decisionPart(store.Item{Key: key, Value: value}) }

func (s *space) damagedDecision(key []byte) {
	s.damage().of(incarnation(key[2:]), "")
	s.decisionPart(store.Item{Key: key, Damaged: true})
}

func (s *space) decisionPart(it store.Item) {
	if n := len(s.parts); n > 0 && string(decisionOf(s.parts[n-1].Key)) != string(decisionOf(it.Key)) {
		s.endDecision()
	}
	s.parts = append(s.parts, store.Item{Key: slices.Clone(it.Key), Value: slices.Clone(it.Value), Damaged: it.Damaged})
}

// decisionOf is a key without the number of its part.
func decisionOf(key []byte) []byte { return key[:len(key)-2] }

func (s *space) endDecision() {
	parts := s.parts
	if s.parts = nil; len(parts) == 0 {
		return
	}
	key, pinc := parts[0].Key, incarnation(parts[0].Key[2:])
	wrong := func(code, format string, args ...any) *Finding {
		return s.wrong("decision", key, code, format, args...).of(pinc, "")
	}
	if !s.belongs(pinc) && s.lostProjects == 0 {
		// A window may be answered while its project is being deleted.
		wrong(foundOrphan, "the decision's project does not exist").harmless = true
		return
	}
	if decisionPart(key) != 0 {
		wrong(foundMissing, "the decision has no beginning: the one that wrote it did not get to its end").harmless = true
		return
	}
	for i, part := range parts {
		if part.Damaged {
			return
		}
		if int(decisionPart(part.Key)) != i {
			wrong(foundMissing, "part %d of the decision is not there", i)
			return
		}
	}
	if len(parts) == 1 && string(parts[0].Value) == purged {
		return
	}
	d := new(decision)
	if err := json.Unmarshal(joinBody(parts), d); err != nil {
		wrong(foundMalformed, "the decision does not decode from its %d parts: %v", len(parts), err)
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
	s.endDecision()
	delete(s.wanted, string(key))
}

func (s *space) finishDecisions() {
	s.endDecision()
	for key, pinc := range s.wanted {
		// A window may be answered while its project is being swept.
		s.wrong("effective", []byte(key), foundMissing, "decisions of day %d name settings that are not there",
			binary.BigEndian.Uint16([]byte(key)[2+8:])).inProject(pinc)
	}
	s.wanted = nil
}
