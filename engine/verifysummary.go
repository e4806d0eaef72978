package engine

import "encoding/binary"

// summary is one version of a session's running summary: the one that its head names, or one before it.
func (s *space) summary(key, value []byte) {
	m := s.messages(key)
	if m == nil {
		return
	}
	version, now := binary.BigEndian.Uint32(key[len(key)-4:]), m.head.covered()
	m.summarised = m.summarised || version == now.Version
	if version < now.Version || now.Covers == 0 { // kept for decisions' sake, for a while
		s.expires(key)
	}
	var rec summaryRecord
	if !s.decode(key, value, &rec) {
		return
	}
	switch {
	case version == 0 || version > now.Version:
		s.about(m, key, foundMismatch, "version %d of the summary; the session has had %d", version, now.Version)
	case version == now.Version && now.Covers > 0 && (rec.Covers != now.Covers || rec.Count != now.Count):
		s.about(m, key, foundMismatch, "the summary covers %d messages up to %d, the session says %d up to %d", rec.Count,
			rec.Covers, now.Count, now.Covers)
	case rec.Covers > m.head.Messages || rec.Count > rec.Covers:
		s.about(m, key, foundMismatch, "the summary covers %d messages up to %d, the session has %d", rec.Count, rec.Covers,
			m.head.Messages)
	}
}

func (s *space) damagedSummary(key []byte) {
	if m := s.messages(key); m != nil {
		s.damage().of(m.head.pinc, m.head.session)
		m.summarised = m.summarised || binary.BigEndian.Uint32(key[len(key)-4:]) == m.head.covered().Version
	}
}

func (s *space) summaryJob(key, value []byte) {
	var rec summaryJob
	s.decode(key, value, &rec)
	if s.heads[incarnation(key[3:])] == nil {
		s.bad(key, foundOrphan, "a summary of a session that does not exist is to be made").harmless = true
	}
}

func (s *space) usageDay(key, value []byte) {
	var rec usage
	s.decode(key, value, &rec)
	s.expires(key)
}
