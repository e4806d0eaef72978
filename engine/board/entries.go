package board

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Entry is an entry of a board as clients see it. If it is Damaged, only the ids are known.
type Entry struct {
	ID      string   `json:"id"`
	BoardID string   `json:"board_id"`
	Content string   `json:"content"`
	Tags    []string `json:"tags"`
	Source  *string  `json:"source"`
	// Unverified says that the source is what a client wrote, and not the name of its key's agent or user.
	Unverified bool      `json:"unverified,omitempty"`
	IsChat     bool      `json:"is_chat"` // it has the tag chat
	CreatedAt  time.Time `json:"created_at"`
	Damaged    bool      `json:"damaged,omitempty"`
}

func public(e *Stored, b *boardRecord) Entry {
	out := Entry{ID: entryID(b.Incarnation, e.Seq), BoardID: b.ID, Content: e.Content, Tags: e.Tags, IsChat: e.IsChat(),
		Unverified: e.Unverified, Damaged: e.Damaged}
	if !e.Damaged {
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

// Prefixes of the ids of entries and of notifications.
const (
	entryPrefix  = "bme_"
	noticePrefix = "ntf_"
)

func entryID(board ident.Incarnation, seq uint64) string {
	return ident.Numbered(entryPrefix, board, seq)
}

// Query asks for one page of a board's entries. A Limit of 0 means 50.
type Query struct {
	Filter
	Ascending     bool // otherwise newest first
	Limit, Offset int
}

// Page is one page of a board's entries. Total counts all entries that match the filter.
type Page struct {
	Items  []Entry `json:"items"`
	Total  uint64  `json:"total"`
	Limit  int     `json:"limit"`
	Offset int     `json:"offset"`
}

// maxListBytes is the maximum size of the content on one page, in bytes.
const maxListBytes = 32 << 20

// ListEntries returns a page of a board's entries. It finds them with the index only. It returns too_many,
// invalid_value or out_of_range if the query is invalid, and page_too_large if the page would hold more than 32 MiB of
// content.
func (svc *Service) ListEntries(ctx context.Context, c ident.Caller, id string, q Query) (out Page, err error) {
	limit, _, err := records.Page{Limit: q.Limit}.Decode()
	if err != nil {
		return out, err
	}
	if q.Offset < 0 {
		return out, fault.InvalidField("offset", "out_of_range", "must not be negative")
	}
	err = svc.readSteadily(ctx, c, id, func(b *boardRecord, lost bool) error {
		s, err := svc.choose(ctx, c.Tenant, b, &q.Filter)
		if err != nil {
			return err
		}
		seqs, total, err := s.Page(ctx, q.Ascending, q.Offset, limit)
		if err != nil {
			return err
		}
		entries, err := svc.readEntries(ctx, c.Tenant, b, seqs, maxListBytes, lost)
		if err != nil {
			return err
		}
		if len(entries) < len(seqs) {
			return fault.Errorf(fault.TooLarge, "page_too_large",
				"%d entries have more than %d bytes; ask for limit=%d or less", len(seqs), maxListBytes, len(entries))
		}
		out = Page{Items: make([]Entry, len(entries)), Total: total, Limit: limit, Offset: q.Offset}
		for i, e := range entries {
			out.Items[i] = public(e, b)
		}
		return nil
	})
	return out, err
}

// choose returns the selection of a board's current entries that match a filter.
func (svc *Service) choose(ctx context.Context, tenant string, b *boardRecord, f *Filter) (*Selection, error) {
	return Choose(ctx, svc.db, tenant, &b.Series, f)
}

// readEntries reads entries of a board; see Read.
func (svc *Service) readEntries(ctx context.Context, tenant string, b *boardRecord, seqs []uint64, budget int,
	lost bool) ([]*Stored, error) {
	return Read(ctx, svc.db, tenant, b.Incarnation, seqs, budget, lost)
}
