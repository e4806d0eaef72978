package memory

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// What one page of a listing may cost. A page that ends early says has_more.
const (
	maxScan      = 5_000   // entries looked at
	scanChunk    = 1_000   // entries in one read
	maxPageBytes = 8 << 20 // of memories
	// recordsAtOnce is how many memories a filter that asks records reads together.
	recordsAtOnce = 64
)

// List pages through a project's memories, the latest first by Memory.Time. One that is changed between two pages may
// then be among the first, and in no page to come. It answers the field that is invalid, and not_found where there is no such project.
func (svc *Service) List(ctx context.Context, c ident.Caller, projectID string, f Filter, page records.Page) (
	records.List[Memory], error,
) {
	out := records.List[Memory]{Data: []Memory{}}
	if err := f.Check(); err != nil {
		return out, err
	}
	limit, after, err := page.Decode()
	if err != nil {
		return out, err
	}
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return out, err
	}
	rng, now := f.within(p.Incarnation), svc.db.Now()
	prefix := records.MemoryTime.Under(p.Incarnation).From
	if after != nil {
		from := append(append(prefix[:len(prefix):len(prefix)], after...), 0)
		rng.From = slices.MaxFunc([][]byte{from, rng.From}, bytes.Compare)
	}
	cost := pageCost{entries: maxScan, bytes: maxPageBytes}
	for {
		ask := limit - len(out.Data)
		if f.NeedsRecord() { // which may leave out most of what the entries let through
			ask = max(ask, recordsAtOnce)
		}
		found, last, more, err := svc.scan(ctx, c.Tenant, rng, &f, ask, now, &cost)
		if err != nil {
			return out, err
		}
		shown, err := svc.show(ctx, c.Tenant, p, &f, found, now, limit, &out.Data)
		if err != nil {
			return out, err
		}
		if shown < len(found) {
			last, more = found[shown-1].keys(p.Incarnation)[0], true
		}
		if !more {
			return out, nil
		}
		if last != nil {
			rng.From = append(bytes.Clone(last), 0)
		}
		if len(out.Data) == limit || !cost.left() {
			cursor := base64.RawURLEncoding.EncodeToString(rng.From[len(prefix) : len(rng.From)-1])
			out.HasMore, out.NextCursor = true, &cursor
			return out, nil
		}
	}
}

// show appends the memories of some entries that pass the filter, until there are as many as the limit says, and tells
// how many entries it took.
func (svc *Service) show(ctx context.Context, tenant string, p *project.Record, f *Filter, found []entry, now time.Time,
	limit int, out *[]Memory) (taken int, err error) {
	keys := make([]string, len(found))
	for i := range found {
		keys[i] = found[i].id
	}
	recs, err := svc.readAll(ctx, tenant, p, keys)
	if err != nil {
		return 0, err
	}
	for i, rec := range recs {
		if len(*out) == limit {
			return i, nil
		}
		switch {
		case rec == nil:
		case rec.Damaged && !f.NeedsRecord():
			*out = append(*out, found[i].damaged())
		case !rec.Damaged && f.Passes(rec, now): // else it changed meanwhile
			*out = append(*out, rec.Memory)
		}
	}
	return len(found), nil
}

// pageCost is what one page may still cost.
type pageCost struct{ entries, bytes int }

func (c *pageCost) left() bool { return c.entries > 0 && c.bytes > 0 }

// scan finds entries that match in a part of the index by time. Where there are more that may match, last is the key of
// the last entry looked at; nil where none was. A damaged entry is left out: its memory can still be read, found by
// words, stored anew and forgotten.
func (svc *Service) scan(ctx context.Context, tenant string, rng store.Range, f *Filter, limit int, now time.Time,
	cost *pageCost) (found []entry, last []byte, more bool, err error) {
	if bytes.Compare(rng.From, rng.To) >= 0 {
		return nil, nil, false, nil
	}
	if rng.Limit = scanChunk; f.empty() {
		rng.Limit = min(scanChunk, limit+1)
	}
	for it, err := range svc.db.Scan(ctx, tenant, rng) {
		if err != nil {
			return nil, nil, false, err
		}
		e, whole := entryOf(it)
		switch {
		case !whole:
			svc.logDamagedEntry(tenant)
		case !f.matches(&e, now):
		case len(found) == limit:
			return found, last, true, nil
		case cost.bytes < maxPageBytes && e.Bytes > cost.bytes: // the first may have any length
			cost.bytes = 0
			return found, last, true, nil
		default:
			found, cost.bytes = append(found, e), cost.bytes-e.Bytes
		}
		last = it.Key
		if cost.entries--; cost.entries == 0 {
			return found, last, true, nil
		}
	}
	return found, nil, false, nil
}
