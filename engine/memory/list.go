package memory

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// What one page of a listing may cost. A page that ends early says has_more.
const (
	maxScan      = 5_000   // entries looked at
	scanChunk    = 1_000   // entries in one read
	maxPageBytes = 8 << 20 // of content
)

// Filter picks memories: all that it names must hold.
type Filter struct {
	Category  string
	Tags      []string // all of them
	Source    string
	SessionID string
	Since     string // of the last change, inclusive: RFC 3339, or a day
	Until     string // of the last change, inclusive; a day is meant to its end

	From, To *time.Time // Since and Until as Check read them; nil: no bound
}

// Check refuses a filter that nothing can mean, as invalid with the field, and reads its times.
func (f *Filter) Check() error {
	if f.Category != "" {
		if err := checkCategory(f.Category); err != nil {
			return err
		}
	}
	err := checkTagCount(f.Tags)
	if err != nil {
		return err
	}
	if f.From, err = records.ParseBound("since", f.Since, false); err != nil {
		return err
	}
	if f.To, err = records.ParseBound("until", f.Until, true); err != nil {
		return err
	}
	if f.From != nil && f.To != nil && f.From.After(*f.To) {
		return fault.InvalidField("until", "out_of_range", "must not lie before since")
	}
	return nil
}

// Passes tells whether a memory passes and is not expired. It leaves the times aside, because whoever asks has found
// the memory by its time.
func (f *Filter) Passes(r *Record, now time.Time) bool { return f.matches(r.entry(), now) }

func (f *Filter) matches(e *entry, now time.Time) bool {
	missing := func(tag string) bool { return !slices.Contains(e.Tags, tag) }
	return (f.Category == "" || f.Category == e.Category) &&
		(f.Source == "" || f.Source == e.Source) &&
		(f.SessionID == "" || f.SessionID == e.SessionID) &&
		!slices.ContainsFunc(f.Tags, missing) &&
		(e.Expires == 0 || e.Expires > now.UnixMilli())
}

// empty tells whether every memory of the right time passes, save those that are expired.
func (f *Filter) empty() bool {
	return f.Category == "" && f.Source == "" && f.SessionID == "" && len(f.Tags) == 0
}

// within is the part of a project's index by time that the filter's times leave.
func (f *Filter) within(pinc ident.Incarnation) store.Range {
	rng := records.MemoryTime.Under(pinc)
	if f.To != nil {
		rng.From = records.MemoryTime.Key(pinc, records.TimeOf(max(0, f.To.UnixMilli())), "")
	}
	if f.From != nil && f.From.UnixMilli() > 0 {
		// A time between two milliseconds leaves out the first of them.
		first := f.From.Add(time.Millisecond - 1).Truncate(time.Millisecond)
		rng.To = records.MemoryTime.Key(pinc, first.Add(-time.Millisecond), "")
	}
	return rng
}

// List pages through a project's memories, the last changed first. One that changes between two pages is then among the
// first, and in no page to come. It answers the field that is invalid, and not_found where there is no such project.
func (svc *Service) List(ctx context.Context, c access.Caller, projectID string, f Filter, page records.Page) (
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
	found, last, err := svc.scan(ctx, c.Tenant, rng, &f, limit, now)
	if err != nil {
		return out, err
	}
	if out.HasMore = last != nil; out.HasMore {
		cursor := base64.RawURLEncoding.EncodeToString(last[len(prefix):])
		out.NextCursor = &cursor
	}
	keys := make([]string, len(found))
	for i := range found {
		keys[i] = found[i].key
	}
	recs, err := svc.readAll(ctx, c.Tenant, p, keys)
	if err != nil {
		return out, err
	}
	for i, rec := range recs {
		switch {
		case rec == nil:
		case rec.Damaged:
			out.Data = append(out.Data, found[i].damaged())
		case f.Passes(rec, now): // else it changed meanwhile
			out.Data = append(out.Data, rec.Memory)
		}
	}
	return out, nil
}

// scan finds the entries of one page in a part of the index by time. Where there are more that match, or may be, last
// is the key of the last entry looked at. A damaged entry is left out: its memory can still be read, found by words,
// stored anew and forgotten.
func (svc *Service) scan(ctx context.Context, tenant string, rng store.Range, f *Filter, limit int, now time.Time) (
	found []entry, last []byte, err error,
) {
	if bytes.Compare(rng.From, rng.To) >= 0 {
		return nil, nil, nil
	}
	if rng.Limit = scanChunk; f.empty() {
		rng.Limit = min(scanChunk, limit+1)
	}
	size, looked := 0, 0
	for it, err := range svc.db.Scan(ctx, tenant, rng) {
		if err != nil {
			return nil, nil, err
		}
		e, whole := entryOf(it)
		switch {
		case !whole:
			svc.logDamagedEntry(tenant)
		case !f.matches(&e, now):
		case len(found) == limit || len(found) > 0 && size+e.Bytes > maxPageBytes:
			return found, last, nil
		default:
			found, size = append(found, e), size+e.Bytes
		}
		last = it.Key
		if looked++; looked == maxScan {
			return found, last, nil
		}
	}
	return found, nil, nil
}
