package memory

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// The limits of one page of a list. A page that ends early says has_more.
const (
	maxScan      = 5_000   // entries or records read
	scanChunk    = 1_000   // entries in one read
	recordChunk  = 32      // records in one read; each may be larger than 1 MiB
	maxPageBytes = 8 << 20 // of memories
	// recordsAtOnce is how many memories are read together for a filter that needs records.
	recordsAtOnce = 64
)

// Order is the order of a list of memories.
type Order string

const (
	// ByKey orders by namespace and key. Writes do not change the order, so paging neither skips nor repeats a memory.
	ByKey Order = "key"
	// Recent orders by Memory.Time, latest first. Memories that changed during paging follow the oldest one, so paging
	// skips none but may repeat them.
	Recent Order = "recent"
)

// ParseOrder parses an order; "" is ByKey. It returns invalid_value for any other text.
func ParseOrder(s string) (Order, error) {
	switch o := Order(s); o {
	case "":
		return ByKey, nil
	case ByKey, Recent:
		return o, nil
	}
	return "", fault.InvalidField("order", "invalid_value", "must be key or recent")
}

// List returns a page of a project's memories that match a filter. It returns an error that names an invalid field, or
// not_found if there is no such project.
func (svc *Service) List(ctx context.Context, c ident.Caller, projectID string, f Filter, order Order,
	page records.Page) (records.List[Memory], error) {
	l := listing{svc: svc, ctx: ctx, tenant: c.Tenant, f: &f, now: svc.db.Now(), entries: maxScan, bytes: maxPageBytes,
		out: records.List[Memory]{Data: []Memory{}}}
	c, namespace, err := c.In(f.Namespace)
	if err != nil {
		return l.out, err
	}
	f.Namespace = namespace
	if err := f.Check(); err != nil {
		return l.out, err
	}
	p, _, _, err := svc.projects.Read(ctx, c, projectID, nil)
	if err != nil {
		return l.out, err
	}
	l.project = p
	if l.list, err = f.list(p.Incarnation, order); err != nil {
		return l.out, err
	}
	var place []byte
	if l.limit, place, err = page.Decode(l.list...); err != nil {
		return l.out, err
	}
	if order == ByKey {
		return l.out, l.byKey(place)
	}
	return l.out, l.recent(place)
}

// list identifies the list of the filter's memories in its cursors. It excludes the filter's times: a tool that says "2
// hours ago" means another time with each page.
func (f *Filter) list(pinc ident.Incarnation, order Order) ([][]byte, error) {
	same := *f
	same.Since, same.Until = "", ""
	said, err := json.Marshal(same)
	return [][]byte{[]byte("memories"), pinc[:], []byte(order), said}, err
}

// listing is a page under construction.
type listing struct {
	svc     *Service
	ctx     context.Context
	tenant  string
	project *project.Record
	f       *Filter
	now     time.Time
	limit   int
	list    [][]byte // identifies the list
	out     records.List[Memory]

	// What the page may still use.
	entries, bytes int
}

// full reports whether the page accepts no more memories.
func (l *listing) full() bool { return len(l.out.Data) == l.limit || l.entries <= 0 || l.bytes <= 0 }

// take reserves space for a memory of size bytes and reports whether there was enough. The first memory may have any
// size.
func (l *listing) take(size int) bool {
	if l.bytes < maxPageBytes && size > l.bytes {
		l.bytes = 0
		return false
	}
	l.bytes -= size
	return true
}

// end sets the cursor to continue after a place.
func (l *listing) end(place []byte) {
	l.out.HasMore, l.out.NextCursor = true, records.Cursor(place, l.list...)
}

// byKey makes a page in the order of full names.
func (l *listing) byKey(place []byte) error {
	prefix := records.Memory.Under(l.project.Incarnation).From
	for _, rng := range l.f.named(l.project.Incarnation) {
		if place != nil {
			behind := append(append(prefix[:len(prefix):len(prefix)], place...), 0)
			if bytes.Compare(behind, rng.From) > 0 {
				rng.From = behind
			}
		}
		if bytes.Compare(rng.From, rng.To) >= 0 {
			continue
		}
		rng.Limit = recordChunk
		if l.f.empty() && !l.f.NeedsRecord() {
			rng.Limit = min(recordChunk, l.limit+1)
		}
		for it, err := range l.svc.db.Scan(l.ctx, l.tenant, rng) {
			if err != nil {
				return err
			}
			if l.full() || !l.take(len(it.Value)) {
				l.end(place)
				return nil
			}
			l.entries--
			if err := l.add(it); err != nil {
				return err
			}
			place = it.Key[len(prefix):]
		}
	}
	return nil
}

// add adds the memory of a stored record if it matches the filter. It judges a damaged one by its entry in the index by
// time.
func (l *listing) add(it store.Item) error {
	_, id, _ := records.Memory.Split(it.Key)
	if !ident.InNamespace(id, l.f.path) {
		return nil
	}
	rec := decode(it.Value)
	if it.Damaged || rec.Damaged {
		e, err := l.svc.entryNamed(l.ctx, l.tenant, l.project.Incarnation, id)
		if err == nil && e != nil && !l.f.NeedsRecord() && l.f.matches(e, l.now) {
			l.out.Data = append(l.out.Data, e.damaged())
		}
		return err
	}
	if l.f.Passes(rec, l.now) {
		l.out.Data = append(l.out.Data, rec.Memory)
	}
	return nil
}

// entryNamed returns a memory's intact entry in the index by time, or nil if there is none. It scans the index, so it
// is only for memories whose record is damaged.
func (svc *Service) entryNamed(ctx context.Context, tenant string, pinc ident.Incarnation, id string) (*entry, error) {
	for it, err := range svc.db.Scan(ctx, tenant, records.MemoryTime.Under(pinc)) {
		if err != nil {
			return nil, err
		}
		if e, whole := entryOf(it); whole && e.id == id {
			return &e, nil
		}
	}
	return nil, nil
}

// recentHead is the size of the beginning of a place in the order Recent: the walk it is in, and the time of the first
// page.
const recentHead = 1 + 8

// recent makes a page in the order of time. A first walk goes from the latest memory to the oldest, and a second from
// the oldest to the latest through the memories that changed since the first page was made. Memories that change again
// in the meantime move ahead of the second walk.
func (l *listing) recent(place []byte) error {
	w := walk{since: l.now}
	if place != nil {
		if len(place) < recentHead {
			return records.ErrCursor()
		}
		w = walk{again: place[0] == 1, since: records.TimeOf(int64(binary.BigEndian.Uint64(place[1:])))}
		if len(place) > recentHead {
			w.behind = place[recentHead:]
		}
	}
	done, err := l.walk(w)
	if err != nil || !done || w.again || place == nil {
		return err
	}
	w = walk{again: true, since: w.since}
	if l.full() {
		l.end(w.place())
		return nil
	}
	_, err = l.walk(w)
	return err
}

// walk is a walk through the index by time.
type walk struct {
	again  bool      // the second walk: oldest first, and only what changed since
	since  time.Time // when the first page was made
	behind []byte    // the place to continue after; nil means the beginning
}

// place returns the place for a cursor.
func (w walk) place() []byte {
	head := binary.BigEndian.AppendUint64([]byte{0}, uint64(w.since.UnixMilli()))
	if w.again {
		head[0] = 1
	}
	return append(head, w.behind...)
}

// walk continues a walk, and reports whether it reached its end within the page.
func (l *listing) walk(w walk) (done bool, err error) {
	prefix := records.MemoryTime.Under(l.project.Incarnation).From
	rng := l.f.within(l.project.Incarnation)
	rng.Reverse = w.again
	for {
		if w.behind != nil {
			at := append(prefix[:len(prefix):len(prefix)], w.behind...)
			switch {
			case w.again && bytes.Compare(at, rng.To) < 0:
				rng.To = at
			case !w.again && bytes.Compare(at, rng.From) >= 0:
				rng.From = append(at, 0)
			}
		}
		found, last, more, err := l.scan(rng, w)
		if err != nil {
			return false, err
		}
		shown, err := l.show(found, w)
		if err != nil {
			return false, err
		}
		if shown < len(found) {
			last, more = found[shown-1].keys(l.project.Incarnation)[0], true
		}
		if !more {
			return true, nil
		}
		if last != nil {
			w.behind = last[len(prefix):]
		}
		if l.full() {
			l.end(w.place())
			return false, nil
		}
	}
}

// show adds the memories of matching entries, until the page is full, and returns how many entries it used.
func (l *listing) show(found []entry, w walk) (taken int, err error) {
	keys := make([]string, len(found))
	for i := range found {
		keys[i] = found[i].id
	}
	recs, err := l.svc.readAll(l.ctx, l.tenant, l.project, keys)
	if err != nil {
		return 0, err
	}
	for i, rec := range recs {
		if len(l.out.Data) == l.limit {
			return i, nil
		}
		switch {
		case rec == nil:
		case rec.Damaged && !l.f.NeedsRecord() && !w.again:
			l.out.Data = append(l.out.Data, found[i].damaged())
		case rec.Damaged, w.again && !rec.UpdatedAt.After(w.since):
		case l.f.Passes(rec, l.now): // otherwise it changed in the meantime
			l.out.Data = append(l.out.Data, rec.Memory)
		}
	}
	return len(found), nil
}

// scan finds entries that match in a part of the index by time. If there may be more, last is the key of the last entry
// examined, or nil if none was. It skips damaged entries: their memories can still be read, found by words, overwritten
// and forgotten.
func (l *listing) scan(rng store.Range, w walk) (found []entry, last []byte, more bool, err error) {
	if bytes.Compare(rng.From, rng.To) >= 0 {
		return nil, nil, false, nil
	}
	limit := l.limit - len(l.out.Data)
	if l.f.NeedsRecord() || w.again { // the filter may reject most of what the entries let through
		limit = max(limit, recordsAtOnce)
	}
	rng.Limit = scanChunk
	if l.f.empty() && !w.again {
		rng.Limit = min(scanChunk, limit+1)
	}
	for it, err := range l.svc.db.Scan(l.ctx, l.tenant, rng) {
		if err != nil {
			return nil, nil, false, err
		}
		e, whole := entryOf(it)
		switch {
		case !whole:
			l.svc.logDamagedEntry(l.tenant)
		case w.again && e.Occurred == nil && !e.at.After(w.since) || !l.f.matches(&e, l.now):
		case len(found) == limit:
			return found, last, true, nil
		case !l.take(e.Bytes):
			return found, last, true, nil
		default:
			found = append(found, e)
		}
		last = it.Key
		if l.entries--; l.entries <= 0 {
			return found, last, true, nil
		}
	}
	return found, nil, false, nil
}
