package board

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-0906e6bc/mneme/engine/ident"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Post is a new entry. It is chat if it has the tag chat or if IsChat is set, which adds the tag.
type Post struct {
	Content string   `json:"content"`
	Tags    []string `json:"tags,omitempty"`
	Source  *string  `json:"source,omitempty"` // at most 256 bytes
	IsChat  *bool    `json:"is_chat,omitempty"`
}

const (
	maxContent = 1 << 20 // bytes
	maxTags    = 64
	maxTag     = 256 // bytes
)

// draft is a new entry, as far as it is known from the request.
type draft struct {
	Stored
	terms    []string // that it is indexed by
	mentions []string
	command  string // of a control message
}

func (p *Post) parse() (*draft, error) {
	out := &draft{Stored: Stored{Content: p.Content}}
	if strings.TrimSpace(p.Content) == "" {
		return nil, fault.InvalidField("content", "required", "must not be blank")
	}
	if out.Size = len(p.Content); out.Size > maxContent {
		return nil, fault.InvalidField("content", "too_long", "must be at most %d bytes", maxContent)
	}
	if p.Source != nil {
		if out.Source = strings.TrimSpace(*p.Source); len(out.Source) > 256 {
			return nil, fault.InvalidField("source", "too_long", "must be at most 256 bytes")
		}
	}
	if len(p.Tags) > maxTags {
		return nil, fault.InvalidField("tags", "too_many", "must be at most %d", maxTags)
	}
	for i, tag := range p.Tags {
		if !validTag(tag) {
			return nil, fault.InvalidField(fmt.Sprintf("tags[%d]", i), "invalid_tag",
				"must be 1 to %d bytes, not blank, without control characters", maxTag)
		}
		if !slices.Contains(out.Tags, tag) {
			out.Tags = append(out.Tags, tag)
		}
	}
	if p.IsChat != nil && *p.IsChat && !out.IsChat() {
		out.Tags = append(out.Tags, ChatTag)
	}
	if out.IsChat() {
		if out.command = commandOf(p.Content); out.command == "" {
			out.mentions = mentionsIn(p.Content)
		}
	}
	out.terms = out.Terms()
	return out, nil
}

func validTag(tag string) bool {
	return len(tag) <= maxTag && strings.TrimSpace(tag) != "" && !strings.ContainsFunc(tag, unicode.IsControl)
}

// PostEntry writes an entry, its index terms and its notifications in one commit. The first entry creates the board. It
// returns required, too_long, too_many or invalid_tag if the post is invalid.
func (svc *Service) PostEntry(ctx context.Context, c ident.Caller, once ident.Once, id string, post Post) (Entry,
	error) {
	parsed, err := post.parse()
	if err != nil {
		return Entry{}, err
	}
	out, err := change(ctx, svc, c, once, id, orNew, func(t *records.Tx, b *boardRecord) (Entry, error) {
		d := *parsed // a copy, so that a retry starts from what was parsed
		out, err := d.write(t, c, b)
		// The stored idempotent response omits what the client wrote. It is added again below.
		out.Content, out.Tags = "", nil
		if parsed.Source != "" {
			out.Source = nil
		}
		return out, err
	})
	out.Content, out.Tags = parsed.Content, append([]string{}, parsed.Tags...)
	if parsed.Source != "" {
		out.Source = &parsed.Source
	}
	return out, err
}

// write collects the writes that add the entry to its board, and returns the entry as clients see it.
func (d *draft) write(t *records.Tx, c ident.Caller, b *boardRecord) (out Entry, err error) {
	if b.Closed {
		return out, fault.Errorf(fault.Conflict, "board_closed", "the board may have lost entries to damaged files "+
			"and takes no new ones: continue on a new board, or delete this one")
	}
	b.Add(&d.Stored, t.Now)
	found := Places{}
	found.Add(b.Incarnation, d.Seq, d.terms)
	q := store.Query{Keys: found.Keys()}
	if d.IsChat() || d.Source != "" {
		q.Ranges = []store.Range{records.BoardAgent.Under(b.Incarnation)}
	}
	r, err := t.DB.Store.Read(t.Ctx, t.Tenant, q)
	if err != nil {
		return out, err
	}
	var agents []*agentRecord
	if len(r.Ranges) > 0 {
		if agents, err = decodeAgents(r.Ranges[0]); err != nil {
			return out, err
		}
	}
	if d.command != "" && !b.mayCommand(c, agents) {
		return out, fault.Errorf(fault.Forbidden, "command_refused", "agent %q may not post %s on board %q: its lead may, "+
			"the agents in its commanders, and keys without an agent", c.Agent, d.command, b.ID)
	}
	d.verify(c, agents)
	if d.IsChat() {
		if err := d.notify(t, c, b, agents); err != nil {
			return out, err
		}
	}
	if err := found.Set(t, r.Keys); err != nil {
		return out, err
	}
	return public(&d.Stored, b), d.Put(t, b.Incarnation)
}
