package board

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/board/postings"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Filter chooses entries. The zero value chooses all.
type Filter struct {
	IsChat *bool
	Tags   []string   // the entry has all of them
	Text   string     // the entry has all words of the text
	Since  *time.Time // the entry was made then or later
	Until  *time.Time // the entry was made before
}

// maxFilterTerms bounds the tags and the words of one filter.
const maxFilterTerms = 32

func (f *Filter) check() (words []string, err error) {
	words = postings.Words(f.Text, maxFilterTerms+1)
	switch {
	case len(words) > maxFilterTerms:
		return nil, fault.InvalidField("q", "too_many", "must be at most %d words", maxFilterTerms)
	case len(f.Tags) > maxFilterTerms:
		return nil, fault.InvalidField("tags", "too_many", "must be at most %d", maxFilterTerms)
	case f.Text != "" && len(words) == 0:
		return nil, fault.InvalidField("q", "invalid_value", "must hold a letter or a digit")
	}
	return words, nil
}

// Query asks for one page of a board's entries. Limit 0 is 50.
type Query struct {
	Filter
	Ascending     bool // else newest first
	Limit, Offset int
}

// Page is one page of a board's entries. Total counts all that the filter chooses.
type Page struct {
	Items  []Entry `json:"items"`
	Total  uint64  `json:"total"`
	Limit  int     `json:"limit"`
	Offset int     `json:"offset"`
}

// maxListBytes bounds the content of one page, in bytes.
const maxListBytes = 32 << 20

// ListEntries gives a page of a board's entries, which the index alone finds. It answers too_many, invalid_value or
// out_of_range where the query cannot be, and page_too_large where the page holds more than 32 MiB of content.
func (svc *Service) ListEntries(ctx context.Context, c access.Caller, id string, q Query) (out Page, err error) {
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
		seqs, total, err := s.page(ctx, q.Ascending, q.Offset, limit)
		if err != nil {
			return err
		}
		entries, err := svc.readEntries(ctx, c.Tenant, b, seqs, maxListBytes, lost)
		if err != nil {
			return err
		}
		if len(entries) < len(seqs) {
			return fault.Errorf(fault.TooLarge, "page_too_large", "%d entries have more than %d bytes; ask for limit=%d or less",
				len(seqs), maxListBytes, len(entries))
		}
		out = Page{Items: make([]Entry, len(entries)), Total: total, Limit: limit, Offset: q.Offset}
		for i, e := range entries {
			out.Items[i] = e.shown(b)
		}
		return nil
	})
	return out, err
}
