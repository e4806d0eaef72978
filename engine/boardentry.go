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
	"unicode"

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

// parsedPost is an entry to be written, as far as the request alone tells.
type parsedPost struct {
	storedEntry
	chat     bool
	words    []string
	mentions []string
	command  string // of a control message
}

func (p *BoardPost) parse() (*parsedPost, error) {
	out := &parsedPost{storedEntry: storedEntry{content: p.Content}, chat: p.IsChat != nil && *p.IsChat}
	if strings.TrimSpace(p.Content) == "" {
		return nil, invalidField("content", "required", "must not be blank")
	}
	if out.Size = len(p.Content); out.Size > maxEntry {
		return nil, invalidField("content", "too_long", "must be at most %d bytes", maxEntry)
	}
	if p.Source != nil {
		if out.Source = strings.TrimSpace(*p.Source); len(out.Source) > 256 {
			return nil, invalidField("source", "too_long", "must be at most 256 bytes")
		}
	}
	if len(p.Tags) > maxEntryTags {
		return nil, invalidField("tags", "too_many", "must be at most %d", maxEntryTags)
	}
	for i, tag := range p.Tags {
		if !validTag(tag) {
			return nil, invalidField(fmt.Sprintf("tags[%d]", i), "invalid_tag",
				"must be 1 to %d bytes, not blank, without control characters", maxEntryTag)
		}
		if !slices.Contains(out.Tags, tag) {
			out.Tags = append(out.Tags, tag)
		}
	}
	if out.chat && !out.isChat() {
		out.Tags = append(out.Tags, chatTag)
	}
	out.words = wordsOf(p.Content, maxWords)
	if out.chat = out.isChat(); out.chat {
		if out.command = commandOf(p.Content); out.command == "" {
			out.mentions = mentionsIn(p.Content)
		}
	}
	return out, nil
}

func validTag(tag string) bool {
	return len(tag) <= maxEntryTag && strings.TrimSpace(tag) != "" && !strings.ContainsFunc(tag, unicode.IsControl)
}

// PostBoardEntry writes an entry with all that follows from it, in one commit. The first one makes the board.
func (e *Engine) PostBoardEntry(ctx context.Context, c Caller, once Once, id string, post BoardPost) (BoardEntry, error) {
	parsed, err := post.parse()
	if err != nil {
		return BoardEntry{}, err
	}
	out, err := changeBoard(ctx, e, c, once, id, true, func(t *tx, b *board) (BoardEntry, error) {
		p := *parsed // a retry starts from what was parsed
		return p.write(t, c, b)
	})
	out.Content = post.Content // which the answer that Once keeps does without
	return out, err
}

// write collects the writes that put the entry on its board.
func (p *parsedPost) write(t *tx, c Caller, b *board) (BoardEntry, error) {
	at := t.now
	if at.Before(b.LastAt) {
		at = b.LastAt
	}
	b.Last++
	b.LastAt = at
	b.Entries++
	p.seq, p.Created = b.Last, at.UnixMilli()

	terms := p.terms(p.words)
	q := store.Query{Keys: make([][]byte, len(terms))}
	for i, term := range terms {
		q.Keys[i] = postingsKey(b.Incarnation, term, p.seq/blockSize)
	}
	if p.chat {
		b.Chat++
		q.Ranges = []store.Range{prefixRange(boardAgentPrefix(b.Incarnation))}
	}
	r, err := t.e.store.Read(t.ctx, t.tenant, q)
	if err != nil {
		return BoardEntry{}, err
	}
	if p.chat {
		agents, err := decodeAgents(r.Ranges[0])
		if err != nil {
			return BoardEntry{}, err
		}
		if err := p.notify(t, c, b, agents); err != nil {
			return BoardEntry{}, err
		}
	}
	for _, it := range r.Keys {
		found, ok := decodePostings(it.Value)
		if !ok || it.Damaged {
			return BoardEntry{}, errDamaged
		}
		found.set(p.seq)
		t.put(it.Key, found.encode())
	}
	t.put(entryTimeKey(b.Incarnation, p.Created, p.seq), []byte{0})
	err = t.putEntry(b, &p.storedEntry)
	shown := p.shown(b)
	shown.Content = ""
	return shown, err
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
