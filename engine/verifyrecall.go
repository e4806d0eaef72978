package engine

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// recallChecks is what is known of transcripts on their way into the index: how far each session is indexed, and what
// is to index the rest. Its records come after sessions' heads and projects.
type recallChecks struct {
	projects *projectChecks
	sessions *sessionChecks
	index    *indexChecks
	marked   map[incarnation]bool   // sessions with messages to be indexed
	backlog  map[incarnation]string // the session that a project's marking has come to
	streams  map[projectStream]uint64
}

// projectStream is a session in a project's index; the number beside it is that of the messages which are indexed.
type projectStream struct{ pinc, session incarnation }

func newRecallChecks(projects *projectChecks, sessions *sessionChecks, index *indexChecks) *recallChecks {
	c := &recallChecks{projects: projects, sessions: sessions, index: index, marked: map[incarnation]bool{},
		backlog: map[incarnation]string{}, streams: map[projectStream]uint64{}}
	index.ofMessage = c.ofMessage
	index.again = func(pinc incarnation) { c.backlog[pinc] = "" }
	index.goes = func(stream uint64) bool { return sessions.goes(incarnationOf(stream)) }
	return c
}

func (c *recallChecks) checks() []recordCheck {
	return []recordCheck{
		{kind: "recall_stream", record: c.stream},
		{kind: "job_unindexed", record: c.mark},
		{kind: "job_backlog", record: c.marking},
	}
}

// ofMessage holds a document against the session whose message it is.
func (c *recallChecks) ofMessage(s *space, key []byte, x *corpusSeen, d *rank.Document) {
	sinc := incarnationOf(d.Stream)
	h := c.sessions.heads[sinc]
	switch {
	case c.sessions.missing(sinc):
		s.orphan("the document is of no session")
	case h == nil:
	case h.pinc != x.pinc || h.session != d.Session:
		h.of(s).mismatch("the document of session %q lies with session %q", d.Session, h.session)
	case d.Number == 0 || d.Number > h.Messages:
		h.of(s).mismatch("the document is of message %d, the session has %d", d.Number, h.Messages)
	}
}

// stream says where a stream of memories goes on, or how far a session is indexed.
func (c *recallChecks) stream(s *space, it store.Item) {
	x := c.index.corpus(s, it.Key)
	if x == nil {
		return
	}
	stream := binary.BigEndian.Uint64(it.Key[2+8+2:])
	sinc := incarnationOf(stream)
	h, end := c.sessions.heads[sinc], x.ends[stream]
	delete(x.ends, stream)
	if it.Damaged {
		c.marked[sinc] = true // nothing is known of how far it is
		return
	}
	var state streamState
	var err error
	if x.space == recallTranscript {
		state, err = readStreamState(it.Value)
	} else if s.sized(it, 8, "a position") {
		state.Next = binary.BigEndian.Uint64(it.Value)
	}
	switch {
	case err != nil:
		s.malformed("it does not decode: %v", err)
	case end > state.Next:
		s.mismatch("the stream goes on at %d, it has a document at %d", state.Next, end-1)
	}
	if x.space != recallTranscript {
		return
	}
	c.streams[projectStream{x.pinc, sinc}] = state.Messages
	switch {
	case c.sessions.missing(sinc):
		s.orphan("it tells how far a session is indexed that does not exist")
	case h == nil:
	case state.Messages > h.Messages:
		h.of(s).mismatch("%d messages are indexed, the session has %d", state.Messages, h.Messages)
	case state.Next != x.counts[stream]+1 && !x.lost:
		h.of(s).mismatch("%d documents are indexed, there are %d", int64(state.Next)-1, x.counts[stream])
	}
}

// mark is the job to index what is new in a session.
func (c *recallChecks) mark(s *space, it store.Item) {
	pinc, sinc := incarnation(it.Key[3:]), incarnation(it.Key[3+8:])
	c.marked[sinc] = true
	h := c.sessions.heads[sinc]
	s.about(pinc, "")
	switch {
	case it.Damaged:
	case len(it.Value) < 8:
		s.malformed("it holds %d bytes", len(it.Value))
	case c.sessions.missing(sinc):
		s.inProject(pinc).orphan("a session is to be indexed that does not exist").harmless = true
	case h == nil:
	case h.pinc != pinc || h.session != string(it.Value[8:]) || binary.BigEndian.Uint64(it.Value) > h.Messages:
		h.of(s).mismatch("session %q is to be indexed as %q, with %d messages", h.session, it.Value[8:],
			binary.BigEndian.Uint64(it.Value))
	}
}

// marking is the job to mark the sessions that a project had before its transcripts were searched.
func (c *recallChecks) marking(s *space, it store.Item) {
	pinc := incarnation(it.Key[3:])
	c.backlog[pinc] = ""
	if len(it.Value) > 0 && it.Value[0] == 0 {
		c.backlog[pinc] = string(it.Value[1:])
	} else if !it.Damaged {
		s.inProject(pinc).malformed("it does not say how far it has come")
	}
}

// finish tells of sessions that nothing will index.
func (c *recallChecks) finish(s *space) {
	for sinc, h := range c.sessions.heads {
		indexed := c.streams[projectStream{h.pinc, sinc}]
		after, marking := c.backlog[h.pinc]
		if c.projects.searched[h.pinc] && !c.marked[sinc] && h.Messages != indexed && (!marking || h.session <= after) {
			mark := h.at(s, "job_unindexed", kindUnindexedJob.Key(h.pinc, sinc))
			mark.missing("of %d messages %d are indexed, and nothing will index the rest", h.Messages, indexed)
		}
	}
}
