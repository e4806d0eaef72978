package engine

import (
	"encoding/binary"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The keys of boards; keys.go has their layout.

func boardKey(id string) []byte { return idKey('b', id) }

func boardPrefix(b incarnation) []byte { return append([]byte{'c', sep}, b[:]...) }

func entryKey(b incarnation, seq uint64, part int) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(append(boardPrefix(b), 'e'), seq), uint16(part))
}

func entryTimePrefix(b incarnation) []byte { return append(boardPrefix(b), 'd') }

func entryTimeKey(b incarnation, ms int64, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(entryTimePrefix(b), uint64(ms)), seq)
}

// entryTimeSeq and entryTimeAt read the number and the time out of a key of entries by time.
func entryTimeSeq(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

func entryTimeAt(key []byte) time.Time {
	return timeOf(int64(binary.BigEndian.Uint64(key[len(key)-16 : len(key)-8])))
}

func postingsKey(b incarnation, term string, block uint64) []byte {
	key := append(append(append(boardPrefix(b), 'i'), term...), sep)
	return binary.BigEndian.AppendUint64(key, block)
}

// postingsBlock reads the block's number out of a key of postings.
func postingsBlock(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

func boardAgentPrefix(b incarnation) []byte { return append(boardPrefix(b), 'g') }

func boardAgentKey(b incarnation, agent string) []byte {
	return append(append(boardAgentPrefix(b), agent...), sep)
}

func inboxPrefix(b, inbox incarnation) []byte {
	return append(append(boardPrefix(b), 'n'), inbox[:]...)
}

func noticeKey(b, inbox incarnation, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(inboxPrefix(b, inbox), seq)
}

const (
	sweepPrefixed = 'c'
	boardDue      = 'e'
)

func boardDueKey(due time.Time, board string) []byte {
	return append(binary.BigEndian.AppendUint64(sweepPrefix(boardDue), uint64(due.UnixMilli())), board...)
}

// dueBoard covers the first look that is due by now; dueBoardID gives the board that a key names.
func dueBoard(now time.Time) store.Range {
	return store.Range{From: sweepPrefix(boardDue), To: boardDueKey(now.Add(time.Millisecond), ""), KeysOnly: true, Limit: 1}
}

func dueBoardID(key []byte) string { return string(key[len(sweepPrefix(boardDue))+8:]) }

// noticeSeq reads a notification's number out of its key.
func noticeSeq(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }
