package engine

import (
	"context"
	"encoding/base64"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// maxOfOneRead bounds the bodies fetched in one round trip.
const maxOfOneRead = 512

// Page bounds one listing. Limit 0 is the default of 50; Cursor is what an earlier page returned.
type Page struct {
	Limit  int
	Cursor string
}

// List is one page of a listing.
type List[T any] struct {
	Data       []T     `json:"data"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
}

const (
	defaultPage = 50
	maxPage     = 1000
)

// listRecords pages through the records under a prefix. read decodes one, or says that it is not to be shown.
func listRecords[T any](ctx context.Context, e *Engine, tenant string, prefix []byte, page Page,
	read func(store.Item) (T, bool, error)) (List[T], error) {
	out := List[T]{Data: []T{}}
	rng := prefixRange(prefix)
	limit, after, err := page.decode()
	if err != nil {
		return out, err
	}
	if after != nil {
		rng.From = append(append(append([]byte(nil), prefix...), after...), 0)
	}
	rng.Limit = limit + 1
	var last []byte
	for {
		r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
		if err != nil {
			return out, err
		}
		for _, it := range r.Ranges[0] {
			if it.Damaged {
				return out, errDamaged
			}
			v, show, err := read(it)
			if err != nil {
				return out, err
			}
			if !show {
				continue
			}
			if len(out.Data) == limit {
				out.HasMore = true
				cursor := base64.RawURLEncoding.EncodeToString(last[len(prefix):])
				out.NextCursor = &cursor
				return out, nil
			}
			out.Data, last = append(out.Data, v), it.Key
		}
		n := len(r.Ranges[0])
		if n < rng.Limit {
			return out, nil
		}
		rng.From = append(append([]byte(nil), r.Ranges[0][n-1].Key...), 0)
	}
}

// decode gives a page's bounds; after is nil for the first page.
func (p Page) decode() (limit int, after []byte, err error) {
	if limit = p.Limit; limit == 0 {
		limit = defaultPage
	}
	if limit < 1 || limit > maxPage {
		return 0, nil, invalidField("limit", "out_of_range", "must be from 1 to %d", maxPage)
	}
	if p.Cursor != "" {
		if after, err = base64.RawURLEncoding.DecodeString(p.Cursor); err != nil || len(after) == 0 || len(after) > 256 {
			return 0, nil, invalidField("cursor", "invalid_cursor", "must be the next_cursor of an earlier page")
		}
	}
	return limit, after, nil
}
