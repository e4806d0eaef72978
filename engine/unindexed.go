package engine

import "encoding/binary"

// markUnindexed leaves word that a session has messages to be indexed. It costs one small blind write, and nothing in a
// project whose transcripts nobody searches.
func (t *tx) markUnindexed(p *project, h *head, session string) {
	if p.Recalls && h.Messages > 0 {
		t.put(kindUnindexedJob.Key(p.Incarnation, h.Incarnation), unindexedMark(h, session))
	}
}

// unindexedMark differs with every turn, so that who is done with the session does not remove a later mark.
func unindexedMark(h *head, session string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, h.Messages), session...)
}
