package memory

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// What one page of a listing may cost: entries of the time index looked at, and bytes of content answered. A page that
// ends early says has_more.
const (
	maxScan      = 5_000
	scanChunk    = 1_000
	maxPageBytes = 8 << 20
)

// Filter picks memories: all that it names must hold. Tags are all of them; Since and Until bound the time of the
// last change, both inclusive, as RFC 3339 or as a day.
type Filter struct {
	Category  string
	Tags      []string
	Source    string
	SessionID string
	Since     string
	Until     string

	From, To *time.Time
}

// Check reads and refuses.
func (f *Filter) Check() error {
	if f.Category != "" {
		if err := checkCategory(f.Category); err != nil {
			return err
		}
	}
	if len(f.Tags) > maxMemoryTags {
		return fault.InvalidField("tags", "too_many", "there are %d, a memory may have %d", len(f.Tags), maxMemoryTags)
	}
	var err error
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

// entry is what the time index says of a memory.
type entry struct {
	Category  string   `json:"c"`
	Tags      []string `json:"t,omitempty"`
	Source    string   `json:"s,omitempty"`
	SessionID string   `json:"n,omitempty"`
	Expires   int64    `json:"x,omitempty"` // Unix ms; 0: never
	Bytes     int      `json:"b"`           // of the content
	Before    int      `json:"h,omitempty"` // of what it was before

	at time.Time // out of the key
}

func (r *Record) entry() ([]byte, error) {
	return json.Marshal(r.Summary())
}

func (r *Record) Summary() *entry {
	entry := &entry{Category: r.Category, Tags: r.Tags, Source: r.Source, SessionID: r.session(),
		Bytes: len(r.Content), Before: r.bytesBefore()}
	if r.ExpiresAt != nil {
		entry.Expires = r.ExpiresAt.UnixMilli()
	}
	return entry
}

func (f *Filter) Matches(entry *entry, now time.Time) bool {
	missing := func(tag string) bool { return !slices.Contains(entry.Tags, tag) }
	return (f.Category == "" || f.Category == entry.Category) &&
		(f.Source == "" || f.Source == entry.Source) &&
		(f.SessionID == "" || f.SessionID == entry.SessionID) &&
		!slices.ContainsFunc(f.Tags, missing) &&
		(entry.Expires == 0 || entry.Expires > now.UnixMilli())
}

// within is the part of a project's time index that the filter's times leave.
func (f *Filter) within(p ident.Incarnation) store.Range {
	rng := records.MemoryTime.Under(p)
	if f.To != nil {
		rng.From = records.MemoryTime.Key(p, records.TimeOf(max(0, f.To.UnixMilli())), "")
	}
	if f.From != nil && f.From.UnixMilli() > 0 {
		// A time between two milliseconds leaves out the first of them.
		rng.To = records.MemoryTime.Key(p, f.From.Add(time.Millisecond-1).Truncate(time.Millisecond).Add(-time.Millisecond), "")
	}
	return rng
}

// List pages through a project's memories, the last changed first. One that changes between two pages is then
// among the first, and in no page to come.
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
	s := &scan{e: svc, ctx: ctx, tenant: c.Tenant, filter: &f, rng: f.within(p.Incarnation), now: svc.db.Now()}
	prefix := records.MemoryTime.Under(p.Incarnation).From
	if after != nil {
		from := append(append(prefix[:len(prefix):len(prefix)], after...), 0)
		s.rng.From = slices.MaxFunc([][]byte{from, s.rng.From}, bytes.Compare)
	}
	if err := s.collect(limit); err != nil {
		return out, err
	}
	if out.HasMore = s.more; s.more {
		cursor := base64.RawURLEncoding.EncodeToString(s.last[len(prefix):])
		out.NextCursor = &cursor
	}
	recs, err := svc.loadLive(ctx, c.Tenant, p, s.keys)
	if err != nil {
		return out, err
	}
	for i, rec := range recs {
		switch {
		case rec == nil:
		case rec.Damaged:
			out.Data = append(out.Data, s.entries[i].damaged(s.keys[i]))
		case f.Matches(rec.Summary(), s.now): // else it changed meanwhile
			out.Data = append(out.Data, rec.Memory)
		}
	}
	return out, nil
}

// damaged shows what the time index still knows of a memory whose record is damaged.
func (entry *entry) damaged(key string) Memory {
	m := Memory{Key: key, Category: entry.Category, Tags: append([]string{}, entry.Tags...), Source: entry.Source,
		CreatedAt: entry.at, UpdatedAt: entry.at, Damaged: true}
	if entry.SessionID != "" {
		m.SessionID = &entry.SessionID
	}
	if entry.Expires != 0 {
		at := records.TimeOf(entry.Expires)
		m.ExpiresAt = &at
	}
	return m
}

// scan walks a project's time index for the memories of one page.
type scan struct {
	e      *Service
	ctx    context.Context
	tenant string
	filter *Filter
	rng    store.Range
	now    time.Time

	keys    []string // of those that match
	entries []entry
	bytes   int    // of their content
	last    []byte // the last entry looked at
	more    bool   // there are or may be more that match
}

func (s *scan) collect(limit int) error {
	for looked := 0; ; {
		s.rng.Limit = scanChunk
		if s.filter.empty() {
			s.rng.Limit = min(scanChunk, limit+1-len(s.keys))
		}
		if bytes.Compare(s.rng.From, s.rng.To) >= 0 {
			return nil
		}
		r, err := s.e.db.Store.Read(s.ctx, s.tenant, store.Query{Ranges: []store.Range{s.rng}})
		if err != nil {
			return err
		}
		for _, it := range r.Ranges[0] {
			if s.more = s.look(it, limit); s.more {
				return nil
			}
		}
		if len(r.Ranges[0]) < s.rng.Limit {
			return nil
		}
		if looked += s.rng.Limit; looked >= maxScan {
			s.more = true
			return nil
		}
		s.rng.From = append(slices.Clone(s.last), 0)
	}
}

// look takes one entry, and tells whether it matches and finds the page full. A damaged entry lists nothing: its memory
// can still be read, found by words, stored anew and forgotten.
func (s *scan) look(it store.Item, limit int) (full bool) {
	var entry entry
	if it.Damaged || json.Unmarshal(it.Value, &entry) != nil {
		s.e.logDamagedEntry(s.tenant)
		s.last = it.Key
		return false
	}
	if s.filter.Matches(&entry, s.now) {
		if len(s.keys) == limit || len(s.keys) > 0 && s.bytes+entry.Bytes > maxPageBytes {
			return true
		}
		var key string
		entry.at, key = splitTime(it.Key)
		s.keys, s.entries, s.bytes = append(s.keys, key), append(s.entries, entry), s.bytes+entry.Bytes
	}
	s.last = it.Key
	return false
}

// logDamagedEntry reports an entry of a time index that cannot be read to the operator.
func (svc *Service) logDamagedEntry(tenant string) {
	svc.db.Log.Error("an entry of the index of memories by time is damaged; lists leave its memory out", "tenant", tenant)
}

// empty tells whether every memory of the range matches, save those that are past their expiry.
func (f *Filter) empty() bool {
	return f.Category == "" && f.Source == "" && f.SessionID == "" && len(f.Tags) == 0
}
