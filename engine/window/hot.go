package window

import (
	"bytes"
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// view is a session as of one revision, immutable: its head and at least the newest rows somebody wanted.
type view struct {
	head  *session.Head
	raw   []byte // the head's bytes, by which staleness shows
	rows  []row  // ascending and contiguous, up to the head's last message
	names []string
	// summary is the head's; nil: it has none, or it cannot be read.
	summary *session.Summary
}

// whole tells whether the view holds the newest want messages, or all that the session has.
func (v *view) whole(want int) bool {
	return len(v.rows) >= want || uint64(len(v.rows)) == v.head.Messages
}

// hotSessions keeps views of recently used sessions in memory, the least recently used going first. A view is used
// only while its head's bytes equal those just read from the store, so it is never stale.
type hotSessions struct {
	mu      sync.Mutex
	limit   int
	bytes   int
	entries map[string]*list.Element // of *hotSession
	order   list.List                // most recent first
}

type hotSession struct {
	key  string
	mu   sync.Mutex // one loader at a time
	view atomic.Pointer[view]
	size int // what bytes counts for it; under hotSessions.mu
}

func newHotSessions(limit int) *hotSessions {
	return &hotSessions{limit: limit, entries: map[string]*list.Element{}}
}

func (s *hotSessions) entry(key string) *hotSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	if el, ok := s.entries[key]; ok {
		s.order.MoveToFront(el)
		return el.Value.(*hotSession)
	}
	h := &hotSession{key: key}
	s.entries[key] = s.order.PushFront(h)
	return h
}

// account sets what a session weighs and lets the least recently used go.
func (s *hotSessions) account(h *hotSession, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if el, ok := s.entries[h.key]; !ok || el.Value != h {
		return // let go meanwhile
	}
	s.bytes += size - h.size
	h.size = size
	for s.bytes > s.limit && s.order.Len() > 1 {
		last := s.order.Remove(s.order.Back()).(*hotSession)
		delete(s.entries, last.key)
		s.bytes -= last.size
	}
}

// About what a session and a row weigh without bodies, in bytes.
const (
	viewSize = 1024
	rowSize  = 512
)

// current gives a view of the session at the head just read, holding at least the newest want messages. What was read
// in another epoch of the store is not found any more, and goes as the least recently used.
func (svc *Service) current(ctx context.Context, tenant string, h *session.Head, raw []byte, want int) (*view,
	*hotSession, error) {
	hot := svc.hot.entry(store.Epoch(svc.db.Store) + "/" + tenant + "/" + string(h.Incarnation[:]))
	fresh := func() *view {
		if v := hot.view.Load(); v != nil && bytes.Equal(v.raw, raw) && v.whole(want) {
			return v
		}
		return nil
	}
	if v := fresh(); v != nil {
		return v, hot, nil
	}
	hot.mu.Lock()
	defer hot.mu.Unlock()
	if v := fresh(); v != nil {
		return v, hot, nil
	}
	v := &view{head: h, raw: raw}
	old := hot.view.Load()
	also := v.summaryItem(old)
	grown, err := svc.grow(ctx, tenant, v, old, want, also)
	if err == nil && !grown {
		var hs []transcript.Header
		if hs, _, err = svc.sessions.ReadHeaders(ctx, tenant, h.Extent(), want, also); err == nil {
			v.append(hs)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if also != nil {
		v.summary = svc.sessions.ParseSummary(tenant, h.Incarnation, h.Covered().Version, *also)
	}
	hot.view.Store(v)
	svc.hot.account(hot, v.weigh())
	return v, hot, nil
}

// grow makes a view out of the one before where the session came from that by at most 64 turns: only what is new is
// read, and the rest keeps what was made of it. It is false where that is not known, because a store may have gone back.
func (svc *Service) grow(ctx context.Context, tenant string, v, old *view, want int, also *store.Item) (bool, error) {
	if old == nil || !old.whole(want) || v.head.Messages < old.head.Messages ||
		v.head.Turns-old.head.Turns > 64 {
		return false, nil
	}
	added, came := int(v.head.Messages-old.head.Messages), v.head.Lineage == old.head.Lineage
	hs, behind, err := svc.sessions.ReadHeaders(ctx, tenant, v.head.Extent(), added, also)
	if came = came || behind == old.head.Lineage; err != nil || !came || len(hs) != added {
		return false, err
	}
	// Views share one array. Only the newest view appends to it, behind the rows that older views see.
	v.rows, v.names = old.rows, old.names
	if len(v.rows)+added > 2*project.MaxConsidered {
		v.rows, v.names = newest(old.rows, project.MaxConsidered)
	}
	v.append(hs)
	return true, nil
}

// summaryItem is the record to read for the view's summary; nil where it has none or the view before has it already.
func (v *view) summaryItem(old *view) *store.Item {
	s := v.head.Covered()
	if s.Covers == 0 {
		return nil
	}
	if old != nil && old.summary != nil && old.head.Covered() == s {
		v.summary = old.summary
		return nil
	}
	return &store.Item{Key: records.Summary.Key(v.head.Incarnation, s.Version)}
}

// at gives a view of an earlier state of a session, for replays. It is not kept.
func (svc *Service) at(ctx context.Context, tenant string, x transcript.Extent, want int) (*view, error) {
	hs, _, err := svc.sessions.ReadHeaders(ctx, tenant, x, want, nil)
	if err != nil {
		return nil, err
	}
	v := &view{head: &session.Head{Incarnation: x.Incarnation, Turns: x.Turns, Messages: x.Messages}}
	v.append(hs)
	return v, nil
}

// newest copies the last rows and numbers their names anew: what no row names any more is forgotten.
func newest(rows []row, n int) ([]row, []string) {
	rows = rows[len(rows)-n:]
	hs := make([]transcript.Header, n)
	for i := range rows {
		hs[i] = rows[i].Header
	}
	v := new(view)
	v.append(hs)
	for i := range rows {
		v.rows[i].content = rows[i].content
	}
	return v.rows, v.names
}

// append adds rows for headers, numbering their names.
func (v *view) append(hs []transcript.Header) {
	ids := make(map[string]uint32, len(v.names)+8)
	names := append(make([]string, 0, len(v.names)+8), v.names...)
	if len(names) == 0 {
		names = append(names, "")
	}
	for i, n := range names {
		ids[n] = uint32(i)
	}
	id := func(s string) uint32 {
		n, ok := ids[s]
		if !ok {
			n = uint32(len(names))
			ids[s], names = n, append(names, s)
		}
		return n
	}
	for i := range hs {
		r := row{Header: hs[i], agentID: id(hs[i].Agent), delegationID: id(hs[i].Delegation), toolID: id(hs[i].Tool),
			content: new(content)}
		for _, tag := range hs[i].Tags {
			r.tagIDs = append(r.tagIDs, id(tag))
		}
		v.rows = append(v.rows, r)
	}
	v.names = names
}

// weigh estimates the memory that a view holds on to.
func (v *view) weigh() int {
	n := viewSize + len(v.rows)*rowSize
	if v.summary != nil {
		n += len(v.summary.Text) + len(v.summary.Notice)
	}
	for i := range v.rows {
		c := v.rows[i].content
		if m := c.message.Load(); m != nil {
			n += len(m.Raw) + len(m.Text)
		}
		for f := range c.fragments {
			for k := range c.fragments[f] {
				if fr := c.fragments[f][k].Load(); fr != nil {
					n += fr.Size()
				}
			}
		}
	}
	return n
}
