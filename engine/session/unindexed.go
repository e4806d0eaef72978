package session

import (
	"encoding/binary"

	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// markUnindexed leaves word that a session has messages to be indexed. It costs one small blind write, and nothing in a
// project whose transcripts nobody searches.
func markUnindexed(t *records.Tx, p *project.Record, h *Head, session string) {
	if p.Recalls && h.Messages > 0 {
		t.Put(records.UnindexedJob.Key(p.Incarnation, h.Incarnation), UnindexedMark(h, session))
	}
}

// UnindexedMark differs with every turn, so that who is done with the session does not remove a later mark.
func UnindexedMark(h *Head, session string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, h.Messages), session...)
}
