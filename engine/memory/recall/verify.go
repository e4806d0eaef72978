package recall

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// checks is what is known about the indexing of transcripts: how far each session is indexed, and what will index the
// rest. The records come after sessions' heads and projects.
type checks struct {
	projects *project.Checks
	sessions *session.Checks
	index    *index.Checks
	marked   map[ident.Incarnation]bool   // sessions with messages to be indexed
	backlog  map[ident.Incarnation]string // by project: the last session examined for marking
	indexed  map[projectStream]indexed
	dead     map[projectStream]uint64 // documents of superseded messages
}

// indexed says how far a session is indexed: the messages in the index, and the runs removed from it.
type indexed struct {
	messages   uint64
	edits      uint32
	superseded transcript.Runs
}

// projectStream is a session in a project's index.
type projectStream struct{ pinc, sinc ident.Incarnation }

// NewChecks returns the checks of one tenant. They tell the index's checks how far transcripts are indexed.
func NewChecks(projects *project.Checks, sessions *session.Checks, index *index.Checks) verify.Checker {
	c := &checks{projects: projects, sessions: sessions, index: index, marked: map[ident.Incarnation]bool{},
		backlog: map[ident.Incarnation]string{}, indexed: map[projectStream]indexed{}, dead: map[projectStream]uint64{}}
	index.OfMessage = c.ofMessage
	index.Again = func(pinc ident.Incarnation) { c.backlog[pinc] = "" }
	index.Goes = func(stream uint64) bool { return sessions.Goes(ident.IncarnationOf(stream)) }
	return c
}

// Checks returns the checks by kind of record.
func (c *checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.RecallStream, Record: c.stream},
		{Kind: records.UnindexedJob, Record: c.mark},
		{Kind: records.BacklogJob, Record: c.marking},
	}
}

// ofMessage compares a document with the session of its message.
func (c *checks) ofMessage(s *verify.Space, x *index.Seen, d *rank.Document) {
	sinc := ident.IncarnationOf(d.Stream)
	h := c.sessions.Heads[sinc]
	switch {
	case c.sessions.Missing(sinc):
		s.Orphan("the document is of no session")
	case h == nil:
	case h.Pinc != x.Project || h.Session != d.Session:
		h.Of(s).Mismatch("the document of session %q lies with session %q", d.Session, h.Session)
	case d.Number == 0 || d.Number > h.Messages:
		h.Of(s).Mismatch("the document is of message %d, the session has %d", d.Number, h.Messages)
	case h.Superseded.Message(d.Number):
		c.dead[projectStream{x.Project, sinc}]++
	}
}

// stream checks the record of where a stream of memories continues, or of how far a session is indexed.
func (c *checks) stream(s *verify.Space, it store.Item) {
	x := c.index.Of(s, it.Key)
	if x == nil {
		return
	}
	_, _, stream, _ := records.RecallStream.Split(it.Key)
	sinc := ident.IncarnationOf(stream.Number)
	h, end := c.sessions.Heads[sinc], x.Ends[stream]
	delete(x.Ends, stream)
	if it.Damaged {
		c.marked[sinc] = true // it is unknown how far it is indexed
		return
	}
	var state streamState
	var err error
	if x.Kind == records.RecallTranscript {
		state, err = readStreamState(it.Value)
	} else if s.Sized(it, 8, "a position") {
		state.Next = binary.BigEndian.Uint64(it.Value)
	}
	switch {
	case err != nil:
		s.Malformed("it does not decode: %v", err)
	case end > state.Next:
		s.Mismatch("the next position of the stream is %d, but it has a document at %d", state.Next, end-1)
	}
	if x.Kind != records.RecallTranscript {
		return
	}
	c.indexed[projectStream{x.Project, sinc}] = indexed{state.Messages, state.Edits, state.Superseded}
	switch {
	case c.sessions.Missing(sinc):
		s.Orphan("it says how far a session is indexed, but the session does not exist")
	case h == nil:
	case state.Namespace != index.Transcripts(x.Project).Number(ident.NamespacePath(h.Namespace)):
		h.Of(s).Mismatch("it is indexed in another namespace than %q", ident.NamespacePath(h.Namespace))
	case state.Messages > h.Messages:
		h.Of(s).Mismatch("%d messages are indexed, the session has %d", state.Messages, h.Messages)
	case state.Superseded.Equal(h.Superseded) && c.dead[projectStream{x.Project, sinc}] > state.Gone && !x.Lost:
		h.Of(s).Mismatch("%d documents are of superseded messages, and %d were taken out",
			c.dead[projectStream{x.Project, sinc}], state.Gone)
	case (x.Counts[stream] >= state.Next || x.Counts[stream]+state.Gone+1 < state.Next) && !x.Lost:
		h.Of(s).Mismatch("%d documents are indexed, there are %d", int64(state.Next)-1, x.Counts[stream])
	}
}

// mark checks a job to index new messages of a session.
func (c *checks) mark(s *verify.Space, it store.Item) {
	pinc, sinc, _ := records.UnindexedJob.Split(it.Key)
	c.marked[sinc] = true
	h := c.sessions.Heads[sinc]
	s.About(pinc, "")
	switch {
	case it.Damaged:
	case len(it.Value) < 8:
		s.Malformed("it holds %d bytes", len(it.Value))
	case c.sessions.Missing(sinc):
		s.InProject(pinc).Orphan("a session is to be indexed that does not exist").Harmless = true
	case h == nil:
	case h.Pinc != pinc || h.Session != string(it.Value[8:]) || binary.BigEndian.Uint64(it.Value) > h.Messages:
		h.Of(s).Mismatch("session %q is to be indexed as %q, with %d messages", h.Session, it.Value[8:],
			binary.BigEndian.Uint64(it.Value))
	}
}

// marking checks a job to mark the sessions that a project had before its transcripts were searched.
func (c *checks) marking(s *verify.Space, it store.Item) {
	pinc, _ := records.BacklogJob.Split(it.Key)
	c.backlog[pinc] = ""
	if len(it.Value) > 0 && it.Value[0] == 0 {
		c.backlog[pinc] = string(it.Value[1:])
	} else if !it.Damaged {
		s.InProject(pinc).Malformed("it does not say how far it has come")
	}
}

// Finish reports sessions that nothing will index.
func (c *checks) Finish(s *verify.Space) {
	for sinc, h := range c.sessions.Heads {
		indexed := c.indexed[projectStream{h.Pinc, sinc}]
		after, marking := c.backlog[h.Pinc]
		if !c.projects.Searched[h.Pinc] || c.marked[sinc] || marking && h.Session > after {
			continue
		}
		mark := h.At(s, records.UnindexedJob, records.UnindexedJob.Key(h.Pinc, sinc))
		if h.Edits != indexed.edits && h.Messages > 0 {
			mark.Missing("messages were changed %d times, the index knows %d, and nothing will index the rest", h.Edits, indexed.edits)
		} else if h.Messages != indexed.messages {
			mark.Missing("of %d messages %d are indexed, and nothing will index the rest", h.Messages, indexed.messages)
		} else if !h.Superseded.Equal(indexed.superseded) {
			mark.Missing("superseded messages may be in the index, and nothing will take them out")
		}
	}
}
