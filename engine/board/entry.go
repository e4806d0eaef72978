package board

// This file stores the entries of boards and finds them by number, tags, words and time. Of boards, it knows only
// Series.
//
// Entries are numbered, and their times never decrease. A filter is therefore a range of numbers and some terms, and
// the index returns the numbers that have a term (see Block). Entries are then read by number, in a separate read. If
// one was deleted in between, Read returns ErrGone, and the caller starts again with the current series.

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// ChatTag is the tag that marks an entry as chat.
const ChatTag = "chat"

// Series describes the entries of one board. It is part of the board's record, so its counts are exact.
type Series struct {
	Incarnation ident.Incarnation `json:"incarnation"`
	Last        uint64            `json:"last"`    // number of the newest entry ever
	LastAt      time.Time         `json:"last_at"` // time of that entry
	Entries     uint64            `json:"entries"` // current number of entries
	Chat        uint64            `json:"chat"`    // how many of them are chat
}

// Add counts a new entry, and sets its number and its time.
func (s *Series) Add(e *Stored, now time.Time) {
	s.Last++
	if now.After(s.LastAt) {
		s.LastAt = now
	}
	s.Entries++
	if e.IsChat() {
		s.Chat++
	}
	e.Seq, e.Created = s.Last, s.LastAt.UnixMilli()
}

// Stored is an entry as it is stored: the length of the JSON of its Record in four bytes, that JSON, and the content.
type Stored struct {
	Record
	Seq     uint64 // its number
	Content string
	Damaged bool // only its number is known
}

// Record is the part of a stored entry that precedes the content.
type Record struct {
	Tags   []string `json:"tags,omitempty"`
	Source string   `json:"source,omitempty"`
	// Unverified says that the source is what a client wrote, and not the name of its key's agent or user.
	Unverified bool       `json:"unverified,omitempty"`
	Created    int64      `json:"created"` // milliseconds since 1970
	Size       int        `json:"size"`    // of the content, in bytes
	Notified   []Notified `json:"notified,omitempty"`
}

// Notified names a notification that an entry caused, which is deleted with the entry.
type Notified struct {
	Agent string            `json:"agent"`
	Inbox ident.Incarnation `json:"inbox"`
	Seq   uint64            `json:"seq"`
	Kind  string            `json:"kind"`
}

// IsChat reports whether the entry has the tag chat.
func (r *Record) IsChat() bool { return slices.Contains(r.Tags, ChatTag) }

// Put collects the writes of the entry and of its place in the index by time. Places writes the index by terms.
func (e *Stored) Put(t *records.Tx, series ident.Incarnation) error {
	meta, err := json.Marshal(e.Record)
	if err != nil {
		return err
	}
	raw := make([]byte, 0, 4+len(meta)+len(e.Content))
	raw = append(binary.BigEndian.AppendUint32(raw, uint32(len(meta))), meta...)
	t.Put(records.Entry.Key(series, e.Seq), append(raw, e.Content...))
	t.Put(records.EntryTime.Key(series, records.TimeOf(e.Created), e.Seq), []byte{0})
	return nil
}

// Delete collects the deletions of what Put wrote, and removes the entry from the counts of its series.
func (e *Stored) Delete(t *records.Tx, s *Series) {
	t.Delete(records.Entry.Key(s.Incarnation, e.Seq))
	t.Delete(records.EntryTime.Key(s.Incarnation, records.TimeOf(e.Created), e.Seq))
	s.Entries--
	if e.IsChat() {
		s.Chat--
	}
}

// Parse decodes a stored entry. If the store knows that it is damaged, value is nil.
func Parse(seq uint64, value []byte) *Stored {
	damaged := &Stored{Seq: seq, Damaged: true}
	if len(value) < 4 {
		return damaged
	}
	n := int(binary.BigEndian.Uint32(value))
	if n > len(value)-4 {
		return damaged
	}
	e := &Stored{Seq: seq, Content: string(value[4+n:])}
	if json.Unmarshal(value[4:4+n], &e.Record) != nil || len(e.Content) != e.Size {
		return damaged
	}
	return e
}

// ErrGone is returned if an entry that was selected no longer exists.
var ErrGone = errors.New("an entry of a board is gone")

// Read reads entries by number, in this order: as many as fit into budget bytes of content, but at least one. If an
// entry does not exist, it returns ErrGone. With lost set, a missing entry was lost by the store: it is returned as
// damaged.
func Read(ctx context.Context, db *records.DB, tenant string, series ident.Incarnation, seqs []uint64, budget int,
	lost bool) ([]*Stored, error) {
	var out []*Stored
	for chunk := range slices.Chunk(seqs, 16) { // so that not all of many long entries are in memory at once
		keys := make([][]byte, len(chunk))
		for i, seq := range chunk {
			keys[i] = records.Entry.Key(series, seq)
		}
		r, err := db.Store.Read(ctx, tenant, store.Query{Keys: keys})
		if err != nil {
			return nil, err
		}
		for i, it := range r.Keys {
			if it.Value == nil && !it.Damaged && !lost {
				return nil, ErrGone
			}
			e := Parse(chunk[i], it.Value)
			if budget -= e.Size; budget < 0 && len(out) > 0 {
				return out, nil
			}
			out = append(out, e)
		}
	}
	return out, nil
}
