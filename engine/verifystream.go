package engine

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// recallStream says where a stream of memories goes on, or how far a session is indexed.
func (s *space) recallStream(key, value []byte) {
	x := s.index(key)
	if x == nil {
		return
	}
	stream := binary.BigEndian.Uint64(key[2+8+2:])
	wrong := func(code, format string, args ...any) { s.bad(key, code, format, args...).pinc = x.pinc }
	state, err := streamState{}, error(nil)
	switch {
	case x.space == recallTranscript:
		state, err = readStreamState(value)
	case len(value) == 8:
		state.Next = binary.BigEndian.Uint64(value)
	default:
		wrong(foundMalformed, "it holds %d bytes, not the 8 of a position", len(value))
	}
	end := x.ends[stream]
	delete(x.ends, stream)
	switch {
	case err != nil:
		wrong(foundMalformed, "it does not decode: %v", err)
	case end > state.Next:
		wrong(foundMismatch, "the stream goes on at %d, it has a document at %d", state.Next, end-1)
	}
	if x.space == recallTranscript {
		if s.streams[x.pinc] == nil {
			s.streams[x.pinc] = map[uint64]streamState{}
		}
		s.streams[x.pinc][stream] = state
		s.indexedSession(key, x, stream, state)
	}
}

// indexedSession holds how far a session is indexed against what there is of it.
func (s *space) indexedSession(key []byte, x *recallSeen, stream uint64, state streamState) {
	h := s.heads[incarnationOf(stream)]
	switch {
	case h == nil:
		if !s.sweptSessions[incarnationOf(stream)] && len(s.lostHeads) == 0 {
			s.bad(key, foundOrphan, "it tells how far a session is indexed that does not exist").pinc = x.pinc
		}
	case state.Messages > h.Messages:
		s.bad(key, foundMismatch, "%d messages are indexed, the session has %d", state.Messages, h.Messages).of(h.pinc, h.session)
	case state.Next != x.counts[stream]+1 && !x.lost:
		s.bad(key, foundMismatch, "%d documents are indexed, there are %d", int64(state.Next)-1, x.counts[stream]).
			of(h.pinc, h.session)
	}
}

func (s *space) damagedRecallStream(key []byte) {
	if x := s.index(key); x != nil {
		s.damage().pinc = x.pinc
		stream := binary.BigEndian.Uint64(key[2+8+2:])
		if delete(x.ends, stream); s.heads[incarnationOf(stream)] != nil {
			s.marked[incarnationOf(stream)] = true // nothing is known of how far it is
		}
	}
}

func (s *space) foldJob(key, value []byte) {
	s.foldJobs[string(key[3:])] = true
	if stateOf(store.Item{Value: value}) != indexReady {
		s.damagedFoldJob(key)
	}
}

// damagedFoldJob notes a space that is dropped and built again, transcripts by marking their sessions anew.
func (s *space) damagedFoldJob(key []byte) {
	pinc, space := spaceOf(key)
	s.foldJobs[string(key[3:])] = true
	if s.rebuilt[pinc] == nil {
		s.rebuilt[pinc] = map[byte]bool{}
	}
	if s.rebuilt[pinc][space] = true; space == recallTranscript {
		s.backlog[pinc] = ""
	}
}

func (s *space) unindexedJob(key, value []byte) {
	pinc, sinc := incarnation(key[3:]), incarnation(key[3+8:])
	s.damagedUnindexedJob(key)
	h := s.heads[sinc]
	switch {
	case len(value) < 8:
		s.bad(key, foundMalformed, "it holds %d bytes", len(value)).pinc = pinc
	case h == nil && (s.sweptSessions[sinc] || len(s.lostHeads) > 0):
	case h == nil:
		f := s.bad(key, foundOrphan, "a session is to be indexed that does not exist").inProject(pinc)
		f.harmless = true
	case h.pinc != pinc || h.session != string(value[8:]) || binary.BigEndian.Uint64(value) > h.Messages:
		s.bad(key, foundMismatch, "session %q is to be indexed as %q, with %d messages", h.session, value[8:],
			binary.BigEndian.Uint64(value)).of(h.pinc, h.session)
	}
}

func (s *space) damagedUnindexedJob(key []byte) { s.marked[incarnation(key[3+8:])] = true }

func (s *space) backlogJob(key, value []byte) {
	s.backlog[incarnation(key[3:])] = ""
	if len(value) == 0 || value[0] != 0 {
		s.bad(key, foundMalformed, "it does not say how far it has come").inProject(incarnation(key[3:]))
		return
	}
	s.backlog[incarnation(key[3:])] = string(value[1:])
}

func (s *space) damagedBacklogJob(key []byte) { s.backlog[incarnation(key[3:])] = "" }

// finishRecall tells of sessions that nothing will index, and of indexes that nothing will remove.
func (s *space) finishRecall() {
	s.endIndex()
	for name, m := range s.memories {
		m.indexed = m.indexed || s.rebuilt[name.pinc][recallMemories]
	}
	for sinc, h := range s.heads {
		if !s.searched[h.pinc] || s.marked[sinc] || h.Messages == s.streams[h.pinc][sinc.stream()].Messages {
			continue
		}
		if after, ok := s.backlog[h.pinc]; ok && h.session > after {
			continue
		}
		s.wrong("job_unindexed", unindexedKey(h.pinc, sinc), foundMissing, "of %d messages %d are indexed, and nothing will index "+
			"the rest", h.Messages, s.streams[h.pinc][sinc.stream()].Messages).of(h.pinc, h.session)
	}
	for pinc, key := range s.homeless {
		s.wrong("recall_document", key, foundOrphan, "there is an index of a project that does not exist").pinc = pinc
	}
	s.streams, s.homeless = nil, nil
}
