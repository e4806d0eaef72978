package engine

import (
	"context"
	"encoding/base64"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	defaultPage = 50
	maxPage     = 1000
)

// listPage pages through a range. show makes of a record what is listed, or says that it is not to be shown.
func listPage[T, S any](ctx context.Context, e *Engine, tenant string, rng store.Range, page Page,
	show func(key []byte, value *T) (S, bool)) (List[S], error) {
	out := List[S]{Data: []S{}}
	limit, from, err := page.decode()
	if err != nil {
		return out, err
	}
	prefix := rng.From
	if from != nil {
		rng.From = after(append(prefix[:len(prefix):len(prefix)], from...))
	}
	rng.Limit = limit + 1
	var last []byte
	for it, err := range each[T](ctx, e, tenant, rng) {
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

// decode gives a page's bounds; after is nil for the first page.
func (p Page) decode() (limit int, after []byte, err error) {
	if limit = p.Limit; limit == 0 {
		limit = defaultPage
	}
	if limit < 1 || limit > maxPage {
		return 0, nil, invalidField("limit", "out_of_range", "must be from 1 to %d", maxPage)
	}
	if p.Cursor != "" {
		after, err = base64.RawURLEncoding.DecodeString(p.Cursor)
		if err != nil || len(after) == 0 || len(after) > 256 {
			return 0, nil, invalidField("cursor", "invalid_cursor", "must be the next_cursor of an earlier page")
		}
	}
	return limit, after, nil
}
