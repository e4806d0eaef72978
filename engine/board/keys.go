package board

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// entryTimeSeq and entryTimeAt read the number and the time out of a key of entries by time.
func entryTimeSeq(key []byte) uint64 {
	_, _, seq, _ := records.EntryTime.Split(key)
	return seq
}

func entryTimeAt(key []byte) time.Time {
	_, at, _, _ := records.EntryTime.Split(key)
	return at
}

// postingsBlock reads the block's number out of a key of postings.
func postingsBlock(key []byte) uint64 {
	_, _, block, _ := records.Postings.Split(key)
	return block
}

// noticeSeq reads a notification's number out of its key.
func noticeSeq(key []byte) uint64 {
	_, _, seq, _ := records.Notice.Split(key)
	return seq
}

// due covers the first look that is due by now; dueBoardID gives the board that a key names.
func due(now time.Time) store.Range {
	rng := records.BoardDueJob.Before(now.Add(time.Millisecond))
	rng.KeysOnly, rng.Limit = true, 1
	return rng
}

func dueID(key []byte) string {
	_, board, _ := records.BoardDueJob.Split(key)
	return board
}
