package board

import (
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// noticeSeen is a notification, according either to its entry or to its own record.
type noticeSeen struct {
	seq, entry uint64
	kind       string
}

// agentSeen is an agent's record and the counts of the notifications that were found.
type agentSeen struct {
	agentRecord
	notices, unread, mentions uint64
}

func (c *checks) agent(s *verify.Space, it store.Item) {
	board, id, _ := records.BoardAgent.Split(it.Key)
	b := c.on(s, board, it.Key)
	if b == nil {
		return
	}
	a := new(agentSeen)
	if !s.Decode(it, &a.agentRecord) {
		b.lostAgents = true
		return
	}
	if a.ID != id || a.Inbox == (ident.Incarnation{}) || a.Acked > a.Last || a.Unread > a.Notices ||
		a.Mentions > a.Notices {
		s.Malformed("board %q: agent %q calls itself %q, %d notifications, %d unread, read up to %d of %d", b.ID,
			id, a.ID, a.Notices, a.Unread, a.Acked, a.Last)
	}
	if other := b.agents[a.Inbox]; other != nil {
		s.Mismatch("board %q: agents %q and %q have one inbox", b.ID, id, other.ID)
		return
	}
	b.agents[a.Inbox] = a
	if a.Lead {
		b.leads++
	}
}

func (c *checks) notice(s *verify.Space, it store.Item) {
	board, inbox, seq, _ := records.Notice.Split(it.Key)
	b := c.on(s, board, it.Key)
	if b == nil {
		return
	}
	a := b.agents[inbox]
	if a == nil {
		if !b.lostAgents {
			c.stray(s, records.Notice.Under2(board, inbox), it.Key)
		}
		return
	}
	var n noticeRecord
	if s.Decode(it, &n) {
		b.notices[inbox] -= verify.Fingerprint(s, noticeSeen{seq, n.Entry, n.Kind})
		if b.find(n.Entry) == nil {
			s.Orphan("board %q: a notification of entry %d, which is not there", b.ID, n.Entry)
		}
	} else {
		b.lostNotices = true
	}
	if seq == 0 || seq > a.Last {
		s.Mismatch("board %q: notification %d of %q, who has had %d", b.ID, seq, a.ID, a.Last)
	}
	a.notices++
	if n.Kind == noticeMention {
		a.mentions++
	}
	if seq > a.Acked {
		a.unread++
	}
}

// inboxes compares the counts in agents' records with the notifications that were found, and these with the
// notifications that entries claim.
func (b *seen) inboxes(s *verify.Space) {
	for inbox, a := range b.agents {
		about := s.At(records.BoardAgent, records.BoardAgent.Key(b.Incarnation, a.ID))
		switch {
		case a.Notices != a.notices || a.Unread != a.unread || a.Mentions != a.mentions && !b.lostNotices:
			about.Mismatch("board %q: %q counts %d notifications, %d unread, %d mentions; there are %d, %d, %d", b.ID,
				a.ID, a.Notices, a.Unread, a.Mentions, a.notices, a.unread, a.mentions)
		case b.notices[inbox] != 0 && !b.lostNotices && !b.lostEntries:
			about.Mismatch("board %q: the notifications of %q are not those that entries say they raised", b.ID, a.ID)
		}
	}
}
