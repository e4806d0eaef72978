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

// Entry is an entry of a board as clients see it. Of a Damaged one only the ids are known.
type Entry struct {
	ID        string    `json:"id"`
	BoardID   string    `json:"board_id"`
	Content   string    `json:"content"`
	Tags      []string  `json:"tags"`
	Source    *string   `json:"source"`
	IsChat    bool      `json:"is_chat"` // it has the tag chat
	CreatedAt time.Time `json:"created_at"`
	Damaged   bool      `json:"damaged,omitempty"`
}

// chatTag is the tag that makes an entry chat.
const chatTag = "chat"

// storedEntry is an entry as it is stored: the length of the JSON of its entryRecord in four bytes, that JSON, and the
// content.
type storedEntry struct {
	entryRecord
	seq     uint64 // its number on the board
	content string
	damaged bool // nothing but its number is known
}

// entryRecord is what a stored entry says before its content.
type entryRecord struct {
	Tags     []string   `json:"tags,omitempty"`
	Source   string     `json:"source,omitempty"`
	Created  int64      `json:"created"` // milliseconds since 1970
	Size     int        `json:"size"`    // of the content, in bytes
	Notified []notified `json:"notified,omitempty"`
}

// notified names a notification that an entry raised, so that it goes with the entry.
type notified struct {
	Agent string            `json:"agent"`
	Inbox ident.Incarnation `json:"inbox"`
	Seq   uint64            `json:"seq"`
	Kind  string            `json:"kind"`
}

func (r *entryRecord) isChat() bool { return slices.Contains(r.Tags, chatTag) }

func (e *storedEntry) shown(b *boardRecord) Entry {
	out := Entry{ID: entryID(b.Incarnation, e.seq), BoardID: b.ID, Content: e.content, Tags: e.Tags, IsChat: e.isChat(),
		Damaged: e.damaged}
	if !e.damaged {
		out.CreatedAt = records.TimeOf(e.Created)
	}
	if out.Tags == nil {
		out.Tags = []string{}
	}
	if e.Source != "" {
		out.Source = &e.Source
	}
	return out
}

// put collects the writes of the entry and of its place among the entries by time.
func (e *storedEntry) put(t *records.Tx, board ident.Incarnation) error {
	meta, err := json.Marshal(e.entryRecord)
	if err != nil {
		return err
	}
	raw := make([]byte, 0, 4+len(meta)+len(e.content))
	raw = append(binary.BigEndian.AppendUint32(raw, uint32(len(meta))), meta...)
	t.Put(records.Entry.Key(board, e.seq), append(raw, e.content...))
	t.Put(records.EntryTime.Key(board, records.TimeOf(e.Created), e.seq), []byte{0})
	return nil
}

// parseEntry reads a stored entry. The value of one that the store knows to be damaged is nil.
func parseEntry(seq uint64, value []byte) *storedEntry {
	damaged := &storedEntry{seq: seq, damaged: true}
	if len(value) < 4 {
		return damaged
	}
	n := int(binary.BigEndian.Uint32(value))
	if n > len(value)-4 {
		return damaged
	}
	e := &storedEntry{seq: seq, content: string(value[4+n:])}
	if json.Unmarshal(value[4:4+n], &e.entryRecord) != nil || len(e.content) != e.Size {
		return damaged
	}
	return e
}

// errEntryGone is answered for an entry that the index names and that is not there.
var errEntryGone = errors.New("an entry of a board is gone")

// readEntries reads entries by number, in this order: as many as fit in budget bytes of content, but at least one. An
// entry that is not there is errEntryGone, unless it was lost by the store: then it comes as damaged and is never left
// out.
func (svc *Service) readEntries(ctx context.Context, tenant string, b *boardRecord, seqs []uint64, budget int, lost bool) (
	[]*storedEntry, error) {
	var out []*storedEntry
	for chunk := range slices.Chunk(seqs, 16) { // so that not all of many long entries are in memory at once
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
			e := parseEntry(chunk[i], it.Value)
			if budget -= e.Size; budget < 0 && len(out) > 0 {
				return out, nil
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// Ids of entries and of notifications have a prefix, the beginning of the incarnation of their board or inbox, and the
// number there. Ids of one board sort as they were given.
const (
	entryPrefix  = "bme_"
	noticePrefix = "ntf_"
	idBytes      = 5 // of the incarnation
)

func entryID(board ident.Incarnation, seq uint64) string { return numberedID(entryPrefix, board, seq) }

func numberedID(prefix string, inc ident.Incarnation, seq uint64) string {
	return fmt.Sprintf("%s%s_%012d", prefix, ident.Alphabet.EncodeToString(inc[:idBytes]), seq)
}

// splitID gives what an id is made of.
func splitID(prefix, id string) (series string, seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, prefix)
	series, number, _ := strings.Cut(rest, "_")
	seq, err := strconv.ParseUint(number, 10, 64)
	return series, seq, ok && err == nil
}

// parseID gives the number that an id names. An id of an earlier incarnation is 0, because all there is now is newer.
func parseID(prefix, field, id string, inc ident.Incarnation) (uint64, error) {
	series, seq, ok := splitID(prefix, id)
	if !ok {
		return 0, fault.InvalidField(field, "invalid_id", "must be an id that was given here, like %s",
			numberedID(prefix, inc, 1))
	}
	if series != ident.Alphabet.EncodeToString(inc[:idBytes]) {
		return 0, nil
	}
	return seq, nil
}
