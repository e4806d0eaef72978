package board

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// parsedPost is an entry to be written, as far as the request alone tells.
type parsedPost struct {
	storedEntry
	chat     bool
	words    []string
	mentions []string
	command  string // of a control message
}

func (p *Post) parse() (*parsedPost, error) {
	out := &parsedPost{storedEntry: storedEntry{content: p.Content}, chat: p.IsChat != nil && *p.IsChat}
	if strings.TrimSpace(p.Content) == "" {
		return nil, fault.InvalidField("content", "required", "must not be blank")
	}
	if out.Size = len(p.Content); out.Size > maxEntry {
		return nil, fault.InvalidField("content", "too_long", "must be at most %d bytes", maxEntry)
	}
	if p.Source != nil {
		if out.Source = strings.TrimSpace(*p.Source); len(out.Source) > 256 {
			return nil, fault.InvalidField("source", "too_long", "must be at most 256 bytes")
		}
	}
	if len(p.Tags) > maxEntryTags {
		return nil, fault.InvalidField("tags", "too_many", "must be at most %d", maxEntryTags)
	}
	for i, tag := range p.Tags {
		if !validTag(tag) {
			return nil, fault.InvalidField(fmt.Sprintf("tags[%d]", i), "invalid_tag",
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

// PostEntry writes an entry with all that follows from it, in one commit. The first one makes the board.
func (svc *Service) PostEntry(ctx context.Context, c access.Caller, once access.Once, id string, post Post) (Entry, error) {
	parsed, err := post.parse()
	if err != nil {
		return Entry{}, err
	}
	out, err := change(ctx, svc, c, once, id, true, func(t *records.Tx, b *Record) (Entry, error) {
		p := *parsed // a retry starts from what was parsed
		return p.write(t, c, b)
	})
	out.Content = post.Content // which the answer that Once keeps does without
	return out, err
}

// write collects the writes that put the entry on its board.
func (p *parsedPost) write(t *records.Tx, c access.Caller, b *Record) (Entry, error) {
	at := t.Now
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
		q.Keys[i] = records.Postings.Key(b.Incarnation, term, p.seq/blockSize)
	}
	if p.chat {
		b.Chat++
		q.Ranges = []store.Range{records.BoardAgent.Under(b.Incarnation)}
	}
	r, err := t.DB.Store.Read(t.Ctx, t.Tenant, q)
	if err != nil {
		return Entry{}, err
	}
	if p.chat {
		agents, err := decodeAgents(r.Ranges[0])
		if err != nil {
			return Entry{}, err
		}
		if err := p.notify(t, c, b, agents); err != nil {
			return Entry{}, err
		}
	}
	for _, it := range r.Keys {
		found, ok := decodePostings(it.Value)
		if !ok || it.Damaged {
			return Entry{}, records.ErrDamaged
		}
		found.set(p.seq)
		t.Put(it.Key, found.encode())
	}
	t.Put(records.EntryTime.Key(b.Incarnation, records.TimeOf(p.Created), p.seq), []byte{0})
	err = putEntry(t, b, &p.storedEntry)
	shown := p.shown(b)
	shown.Content = ""
	return shown, err
}
