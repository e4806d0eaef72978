package board

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// maxEntry bounds an entry's content, in bytes.
	maxEntry = 1 << 20
	// maxEntryTags and maxEntryTag bound its tags and each of them, in bytes.
	maxEntryTags = 64
	maxEntryTag  = 256

	chatTag = "chat"
)

// entryRecord is what a stored entry says before its content, whose length in bytes is Size.
type entryRecord struct {
	Tags     []string   `json:"tags,omitempty"`
	Source   string     `json:"source,omitempty"`
	Created  int64      `json:"created"` // ms
	Size     int        `json:"size"`
	Notified []notified `json:"notified,omitempty"`
}

// notified names a notification that an entry raised, so that it goes with the entry.
type notified struct {
	Agent string            `json:"agent"`
	Inbox ident.Incarnation `json:"inbox"`
	Seq   uint64            `json:"seq"`
	Kind  string            `json:"kind"`
}

// storedEntry is an entry as it lies in the store.
type storedEntry struct {
	entryRecord
	seq     uint64
	content string
	damaged bool // nothing but its number is known
}

func (r *entryRecord) isChat() bool { return slices.Contains(r.Tags, chatTag) }

func (s *storedEntry) shown(b *Record) Entry {
	out := Entry{ID: entryID(b.Incarnation, s.seq), BoardID: b.ID, Content: s.content, Tags: s.Tags, IsChat: s.isChat(),
		CreatedAt: records.TimeOf(s.Created)}
	if out.Tags == nil {
		out.Tags = []string{}
	}
	if out.Damaged = s.damaged; s.damaged {
		out.CreatedAt = time.Time{}
	}
	if s.Source != "" {
		out.Source = &s.Source
	}
	return out
}

// terms are what the entry is found by.
func (s *storedEntry) terms(words []string) []string {
	out := make([]string, 0, 1+len(s.Tags)+len(words))
	out = append(out, termAll)
	for _, tag := range s.Tags {
		out = append(out, termTag+tag)
	}
	for _, word := range words {
		out = append(out, termWord+word)
	}
	return out
}

// An id names its board's or inbox's incarnation and the number there; ids sort as they were given.
const (
	entryIDPrefix  = "bme_"
	noticeIDPrefix = "ntf_"
)

func entryID(b ident.Incarnation, seq uint64) string { return numberedID(entryIDPrefix, b, seq) }

func numberedID(prefix string, inc ident.Incarnation, seq uint64) string {
	return fmt.Sprintf("%s%s_%012d", prefix, ident.Alphabet.EncodeToString(inc[:5]), seq)
}

// parseNumberedID gives the number that an id names, 0 where the id is of an earlier incarnation: all there is is newer.
func parseNumberedID(prefix, field, id string, inc ident.Incarnation) (uint64, error) {
	rest, ok := strings.CutPrefix(id, prefix)
	of, number, _ := strings.Cut(rest, "_")
	seq, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil {
		return 0, fault.InvalidField(field, "invalid_id", "must be an id that was given here, like %s", numberedID(prefix, inc, 1))
	}
	if of != ident.Alphabet.EncodeToString(inc[:5]) {
		return 0, nil
	}
	return seq, nil
}

func putEntry(t *records.Tx, b *Record, s *storedEntry) error {
	meta, err := json.Marshal(s.entryRecord)
	if err != nil {
		return err
	}
	raw := make([]byte, 0, 4+len(meta)+len(s.content))
	raw = append(binary.BigEndian.AppendUint32(raw, uint32(len(meta))), meta...)
	t.Put(records.Entry.Key(b.Incarnation, s.seq), append(raw, s.content...))
	return nil
}

// parseEntry reads a stored entry: its record, and its content behind it.
func parseEntry(seq uint64, value []byte) *storedEntry {
	damaged := &storedEntry{seq: seq, damaged: true}
	if len(value) < 4 { // a damaged item has no value
		return damaged
	}
	n := int(binary.BigEndian.Uint32(value))
	if n > len(value)-4 {
		return damaged
	}
	s := &storedEntry{seq: seq, content: string(value[4+n:])}
	if json.Unmarshal(value[4:4+n], &s.entryRecord) != nil || len(s.content) != s.Size {
		return damaged
	}
	return s
}

// errEntryGone is answered for an entry that the index names and that is not there.
var errEntryGone = errors.New("an entry of a board is gone")

// readEntries reads entries by number, in this order: as many as fit in budget bytes of content, but at least one.
// With lost, an entry that is not there was lost by the store and comes as damaged, never left out.
func (svc *Service) readEntries(ctx context.Context, tenant string, b *Record, seqs []uint64, budget int, lost bool) (
	[]*storedEntry, error) {
	var out []*storedEntry
	for chunk := range slices.Chunk(seqs, 16) { // a few at a time, so that long ones are not all in memory at once
		keys := make([][]byte, len(chunk))
		for i, seq := range chunk {
			keys[i] = records.Entry.Key(b.Incarnation, seq)
		}
		r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: keys})
		if err != nil {
			return nil, err
		}
		for i, it := range r.Keys {
			if it.Value == nil && !it.Damaged && !lost {
				return nil, errEntryGone
			}
			s := parseEntry(chunk[i], it.Value)
			if budget -= s.Size; budget < 0 && len(out) > 0 {
				return out, nil
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// ceilMS is the first millisecond that is not before t: entries are dated to the millisecond.
func ceilMS(t time.Time) int64 {
	ms := t.UnixMilli()
	if records.TimeOf(ms).Before(t) {
		ms++
	}
	return max(ms, 0)
}
