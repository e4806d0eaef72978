package records

import (
	"context"
	"encoding/base64"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// MaxOfOneRead bounds the bodies fetched in one round trip.
const MaxOfOneRead = 512

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

// ListPage pages through a range. show makes of a record what is listed, or says that it is not to be shown.
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

// Decode gives a page's bounds; after is nil for the first page.
func (p Page) Decode() (limit int, after []byte, err error) {
	if limit = p.Limit; limit == 0 {
		limit = defaultPage
	}
	if limit < 1 || limit > maxPage {
		return 0, nil, fault.InvalidField("limit", "out_of_range", "must be from 1 to %d", maxPage)
	}
	if p.Cursor != "" {
		after, err = base64.RawURLEncoding.DecodeString(p.Cursor)
		if err != nil || len(after) == 0 || len(after) > 256 {
			return 0, nil, fault.InvalidField("cursor", "invalid_cursor", "must be the next_cursor of an earlier page")
		}
	}
	return limit, after, nil
}
