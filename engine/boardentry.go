package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
	Agent string      `json:"agent"`
	Inbox incarnation `json:"inbox"`
	Seq   uint64      `json:"seq"`
	Kind  string      `json:"kind"`
}

// storedEntry is an entry as it lies in the store.
type storedEntry struct {
	entryRecord
	seq     uint64
	content string
}

func (r *entryRecord) isChat() bool { return slices.Contains(r.Tags, chatTag) }

func (s *storedEntry) shown(b *board) BoardEntry {
	out := BoardEntry{ID: entryID(b.Incarnation, s.seq), BoardID: b.ID, Content: s.content, Tags: s.Tags, IsChat: s.isChat(),
		CreatedAt: timeOf(s.Created)}
	if out.Tags == nil {
		out.Tags = []string{}
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

func entryID(b incarnation, seq uint64) string { return numberedID(entryIDPrefix, b, seq) }

func numberedID(prefix string, inc incarnation, seq uint64) string {
	return fmt.Sprintf("%s%s_%012d", prefix, idAlphabet.EncodeToString(inc[:5]), seq)
}

// parseNumberedID gives the number that an id names, 0 where the id is of an earlier incarnation: all there is is newer.
func parseNumberedID(prefix, field, id string, inc incarnation) (uint64, error) {
	rest, ok := strings.CutPrefix(id, prefix)
	of, number, _ := strings.Cut(rest, "_")
	seq, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil {
		return 0, invalidField(field, "invalid_id", "must be an id that was given here, like %s", numberedID(prefix, inc, 1))
	}
	if of != idAlphabet.EncodeToString(inc[:5]) {
		return 0, nil
	}
	return seq, nil
}

// encode gives an entry's record and content behind each other, and in how many parts they are stored.
func (s *storedEntry) encode() (raw []byte, parts int, err error) {
	meta, err := json.Marshal(s.entryRecord)
	if err != nil {
		return nil, 0, err
	}
	raw = append(binary.BigEndian.AppendUint32(nil, uint32(len(meta))), meta...)
	raw = append(raw, s.content...)
	return raw, bodyParts(uint32(len(raw))), nil
}

func (t *tx) putEntry(b *board, s *storedEntry) error {
	raw, parts, err := s.encode()
	if err != nil {
		return err
	}
	for part := range parts {
		t.put(entryKey(b.Incarnation, s.seq, part), raw[part*maxBodyPart:min(len(raw), (part+1)*maxBodyPart)])
	}
	return nil
}

// parseEntry reads an entry's first part; parts tells how many there are.
func parseEntry(seq uint64, first []byte) (s *storedEntry, parts int, err error) {
	if len(first) < 4 {
		return nil, 0, errDamaged
	}
	n := int(binary.BigEndian.Uint32(first))
	if n > len(first)-4 {
		return nil, 0, errDamaged
	}
	s = &storedEntry{seq: seq}
	if err := json.Unmarshal(first[4:4+n], &s.entryRecord); err != nil {
		return nil, 0, errDamaged
	}
	s.content = string(first[4+n:])
	return s, bodyParts(uint32(4 + n + s.Size)), nil
}

// errEntryGone is answered for an entry that the index names and that is not there: deleted meanwhile, or lost.
var errEntryGone = errorf(Internal, "storage_damaged", "an entry of the board cannot be read")

// readEntries reads entries by number, in this order: as many as fit in budget bytes of content, but at least one.
func (e *Engine) readEntries(ctx context.Context, tenant string, b *board, seqs []uint64, budget int) (
	[]*storedEntry, error) {
	var out []*storedEntry
	for chunk := range slices.Chunk(seqs, 16) { // a few at a time, so that long ones are not all in memory at once
		keys := make([][]byte, len(chunk))
		for i, seq := range chunk {
			keys[i] = entryKey(b.Incarnation, seq, 0)
		}
		r, err := e.store.Read(ctx, tenant, store.Query{Keys: keys})
		if err != nil {
			return nil, err
		}
		for i, it := range r.Keys {
			if it.Damaged {
				return nil, errDamaged
			}
			if it.Value == nil {
				return nil, errEntryGone
			}
			s, parts, err := parseEntry(chunk[i], it.Value)
			if err != nil {
				return nil, err
			}
			if budget -= s.Size; budget < 0 && len(out) > 0 {
				return out, nil
			}
			if err := e.readRest(ctx, tenant, b, s, parts); err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// readRest reads the parts of an entry behind the first.
func (e *Engine) readRest(ctx context.Context, tenant string, b *board, s *storedEntry, parts int) error {
	var keys [][]byte
	for part := 1; part < parts; part++ {
		keys = append(keys, entryKey(b.Incarnation, s.seq, part))
	}
	if keys != nil {
		r, err := e.store.Read(ctx, tenant, store.Query{Keys: keys})
		if err != nil {
			return err
		}
		s.content += string(joinBody(r.Keys))
	}
	if len(s.content) != s.Size {
		return errDamaged
	}
	return nil
}

// ceilMS is the first millisecond that is not before t: entries are dated to the millisecond.
func ceilMS(t time.Time) int64 {
	ms := t.UnixMilli()
	if timeOf(ms).Before(t) {
		ms++
	}
	return max(ms, 0)
}
