package engine

import "encoding/binary"

func (s *space) boardAgent(key, value []byte) {
	b := s.onBoard(key)
	if b == nil {
		return
	}
	a := new(agentSeen)
	if !s.decode(key, value, &a.agentRecord) {
		b.lostAgents = true
		return
	}
	id := idIn(key, 2+8+1)
	if a.ID != id || a.Inbox == (incarnation{}) || a.Acked > a.Last || a.Unread > a.Notices || a.Mentions > a.Notices {
		s.bad(key, foundMalformed, "board %q: agent %q calls itself %q, %d notifications, %d unread, read up to %d of %d", b.ID,
			id, a.ID, a.Notices, a.Unread, a.Acked, a.Last)
	}
	if other := b.agents[a.Inbox]; other != nil {
		s.bad(key, foundMismatch, "board %q: agents %q and %q have one inbox", b.ID, id, other.ID)
		return
	}
	b.agents[a.Inbox] = a
	if a.Lead {
		b.leads++
	}
}

func (s *space) damagedBoardAgent(key []byte) {
	if b := s.onBoard(key); b != nil {
		b.lostAgents = true
	}
}

// inbox gives the agent whose notification a record is; nil where there is none.
func (s *space) inbox(b *boardSeen, key []byte) *agentSeen {
	inbox := incarnation(key[2+8+1:])
	a := b.agents[inbox]
	if a == nil && !b.lostAgents {
		s.stray(inboxPrefix(b.Incarnation, inbox), key)
	}
	return a
}

func (s *space) boardNotice(key, value []byte) {
	b := s.onBoard(key)
	if b == nil {
		return
	}
	a := s.inbox(b, key)
	if a == nil {
		return
	}
	var n noticeRecord
	if s.decode(key, value, &n) {
		b.notices[a.Inbox] -= s.print(noticeSeq(key), n.Kind, binary.BigEndian.AppendUint64(nil, n.Entry)...)
		if b.find(n.Entry) == nil {
			s.bad(key, foundOrphan, "board %q: a notification of entry %d, which is not there", b.ID, n.Entry)
		}
	} else {
		b.lostNotices = true
	}
	if n.Kind == noticeMention {
		a.mentions++
	}
	s.countNotice(b, a, key)
}

func (s *space) damagedBoardNotice(key []byte) {
	b := s.onBoard(key)
	if b == nil {
		return
	}
	if a := s.inbox(b, key); a != nil {
		b.lostNotices = true
		s.countNotice(b, a, key)
	}
}

func (s *space) countNotice(b *boardSeen, a *agentSeen, key []byte) {
	seq := noticeSeq(key)
	if seq == 0 || seq > a.Last {
		s.bad(key, foundMismatch, "board %q: notification %d of %q, who has had %d", b.ID, seq, a.ID, a.Last)
	}
	a.notices++
	if seq > a.Acked {
		a.unread++
	}
}

// inboxes holds what agents' records count against what came, and that against what entries say that they raised.
func (s *space) inboxes(b *boardSeen) {
	for inbox, a := range b.agents {
		key := boardAgentKey(b.Incarnation, a.ID)
		switch {
		case a.Notices != a.notices || a.Unread != a.unread || a.Mentions != a.mentions && !b.lostNotices:
			s.wrong("board_agent", key, foundMismatch, "board %q: %q counts %d notifications, %d unread, %d mentions; there are "+
				"%d, %d, %d", b.ID, a.ID, a.Notices, a.Unread, a.Mentions, a.notices, a.unread, a.mentions)
		case b.notices[inbox] != 0 && !b.lostNotices && !b.lostEntries:
			s.wrong("board_agent", key, foundMismatch, "board %q: the notifications of %q are not those that entries say they "+
				"raised", b.ID, a.ID)
		}
	}
}
