package engine

import (
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// entryTimeSeq and entryTimeAt read the number and the time out of a key of entries by time.
func entryTimeSeq(key []byte) uint64 {
	_, _, seq, _ := kindEntryTime.Split(key)
	return seq
}

func entryTimeAt(key []byte) time.Time {
	_, at, _, _ := kindEntryTime.Split(key)
	return at
}

// postingsBlock reads the block's number out of a key of postings.
func postingsBlock(key []byte) uint64 {
	_, _, block, _ := kindPostings.Split(key)
	return block
}

// noticeSeq reads a notification's number out of its key.
func noticeSeq(key []byte) uint64 {
	_, _, seq, _ := kindNotice.Split(key)
	return seq
}

// dueBoard covers the first look that is due by now; dueBoardID gives the board that a key names.
func dueBoard(now time.Time) store.Range {
	rng := kindBoardDueJob.Before(now.Add(time.Millisecond))
	rng.KeysOnly, rng.Limit = true, 1
	return rng
}

func dueBoardID(key []byte) string {
	_, board, _ := kindBoardDueJob.Split(key)
	return board
}
