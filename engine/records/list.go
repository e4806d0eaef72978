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
	Limit  int    // the maximum number of items, from 1 to 1000; 0 means 50
	Cursor string // the NextCursor of the previous page; empty for the first page
}

const (
	defaultPage = 50
	maxPage     = 1000
	maxCursor   = 1024 // bytes; longer than the longest key in a list
)

// A cursor consists of its version, a digest of its list, and the place after which the next page begins, so that a
// cursor of another list, or a made-up one, is refused.
const (
	cursorVersion = 1
	cursorHead    = 1 + 8 // bytes before the place
)

// Decode returns the limit and the starting point of a page. list identifies the list; after is nil for the first
// page. It fails with out_of_range for a wrong limit, and with invalid_cursor for a cursor that is not from a page of
// the list.
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

// ErrCursor returns the error for a cursor that is not from a page of the list.
func ErrCursor() error {
	return fault.InvalidField("cursor", "invalid_cursor",
		"must be the next_cursor of an earlier page of the same list, with the same filters and order")
}

// Cursor returns the cursor of the page that begins after a place in a list. The place must not be empty.
func Cursor(place []byte, list ...[]byte) *string {
	s := base64.RawURLEncoding.EncodeToString(append(headOf(list), place...))
	return &s
}

// headOf returns the first bytes of the cursors of a list.
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

// ListPage lists a page of the records of a range, in key order. show converts a record to an item, or omits it;
// omitted records do not count. A cursor is the last key of a page without the range's prefix. It fails with
// out_of_range and invalid_cursor as Page.Decode does.
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
