package records

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

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

// A cursor is its version, a digest of the list that it belongs to, and the place behind which the next page begins, so
// that a cursor of another list, or one that nobody gave, is refused.
const (
	cursorVersion = 1
	cursorHead    = 1 + 8 // bytes before the place
)

// Decode gives a page's bounds. List names the list that is paged through; after is nil for its first page. Decode
// answers out_of_range for a limit, and invalid_cursor for a cursor that no page of the list gave.
func (p Page) Decode(list ...[]byte) (limit int, after []byte, err error) {
	if limit = p.Limit; limit == 0 {
		limit = defaultPage
	}
	if limit < 1 || limit > maxPage {
		return 0, nil, fault.InvalidField("limit", "out_of_range", "must be from 1 to %d", maxPage)
	}
	if p.Cursor == "" {
		return limit, nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || len(raw) <= cursorHead || len(raw) > maxCursor || !bytes.Equal(raw[:cursorHead], headOf(list)) {
		return 0, nil, ErrCursor()
	}
	return limit, raw[cursorHead:], nil
}

// ErrCursor is the error for a cursor that no page of a list gave.
func ErrCursor() error {
	return fault.InvalidField("cursor", "invalid_cursor",
		"must be the next_cursor of an earlier page of the same list, with the same filters and order")
}

// Cursor is the cursor of the page that begins behind a place, which must not be empty, of a list.
func Cursor(place []byte, list ...[]byte) *string {
	s := base64.RawURLEncoding.EncodeToString(append(headOf(list), place...))
	return &s
}

// headOf is how the cursors of a list begin.
func headOf(list [][]byte) []byte {
	h := sha256.New()
	for _, part := range list {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write(part)
	}
	return append([]byte{cursorVersion}, h.Sum(nil)[:cursorHead-1]...)
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
	prefix := rng.From
	limit, from, err := page.Decode(prefix)
	if err != nil {
		return out, err
	}
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
			out.NextCursor = Cursor(last[len(prefix):], prefix)
			break
		}
		out.Data, last = append(out.Data, shown), it.Key
	}
	return out, nil
}
