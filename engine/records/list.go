package records

import (
	"context"
	"encoding/base64"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Page asks for one page of a listing.
type Page struct {
	Limit  int    // how many things at most, from 1 to 1000; 0 is 50
	Cursor string // the NextCursor of the page before; empty for the first page
}

const (
	defaultPage = 50
	maxPage     = 1000
	maxCursor   = 1024 // bytes; the longest key that a list goes on behind is shorter
)

// Decode gives a page's bounds; after is nil for the first page. It answers out_of_range for a limit and invalid_cursor
// for a cursor that no page gave.
func (p Page) Decode() (limit int, after []byte, err error) {
	if limit = p.Limit; limit == 0 {
		limit = defaultPage
	}
	if limit < 1 || limit > maxPage {
		return 0, nil, fault.InvalidField("limit", "out_of_range", "must be from 1 to %d", maxPage)
	}
	if p.Cursor != "" {
		after, err = base64.RawURLEncoding.DecodeString(p.Cursor)
		if err != nil || len(after) == 0 || len(after) > maxCursor {
			return 0, nil, fault.InvalidField("cursor", "invalid_cursor", "must be the next_cursor of an earlier page")
		}
	}
	return limit, after, nil
}

// List is one page of a listing.
type List[T any] struct {
	Data       []T     `json:"data"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"` // null on the last page
}

// ListPage lists a page of the records of a range, in the order of their keys. show makes of a record what is listed,
// or says that it is left out; what is left out does not count. A cursor is the last key of a page without the range's
// beginning. It answers out_of_range and invalid_cursor as Page.Decode does.
func ListPage[T, S any](ctx context.Context, db *DB, tenant string, rng store.Range, page Page,
	show func(key []byte, value *T) (S, bool)) (List[S], error) {
	out := List[S]{Data: []S{}}
	limit, from, err := page.Decode()
	if err != nil {
		return out, err
	}
	prefix := rng.From
	if from != nil {
		rng.From = after(append(prefix[:len(prefix):len(prefix)], from...))
	}
	rng.Limit = limit + 1
	var last []byte
	for it, err := range Each[T](ctx, db, tenant, rng) {
		if err != nil {
			return out, err
		}
		shown, ok := show(it.Key, it.Value)
		if !ok {
			continue
		}
		if len(out.Data) == limit {
			out.HasMore = true
			cursor := base64.RawURLEncoding.EncodeToString(last[len(prefix):])
			out.NextCursor = &cursor
			break
		}
		out.Data, last = append(out.Data, shown), it.Key
	}
	return out, nil
}
