// Package cache keeps recently used sessions in memory: the head, the newest messages, and what has been computed from
// their bodies. A cached view never changes what a caller sees: it is used only if the head just read from the store
// has the same bytes as the view's head, or follows it by appended turns.
package cache

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/lru"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Service caches views and evicts the least recently used ones first.
type Service struct {
	db       *records.DB
	sessions *session.Service
	places   *lru.Map[*atomic.Pointer[View]]
}

// place caches the view of one session. Its mutex allows one load at a time.
type place = lru.Cell[*atomic.Pointer[View]]

// New returns a Service whose views take at most limit bytes; 0 means 64 MiB.
func New(db *records.DB, sessions *session.Service, limit int) *Service {
	return &Service{db: db, sessions: sessions,
		places: lru.New(limit, func() *atomic.Pointer[View] { return new(atomic.Pointer[View]) })}
}

// Current returns a view of the session that holds at least the newest want messages. h is the head just read, and raw
// its bytes. Views that were read in another epoch of the store are no longer found, and are evicted in time.
func (svc *Service) Current(ctx context.Context, tenant string, h *session.Head, raw []byte, want int) (*View, error) {
	p := svc.places.Cell(ident.Join(store.Epoch(svc.db.Store), tenant, string(h.Incarnation[:])))
	fresh := func() *View {
		if v := p.Value.Load(); v != nil && bytes.Equal(v.raw, raw) && v.whole(want) {
			return v
		}
		return nil
	}
	if v := fresh(); v != nil {
		return v, nil
	}
	p.Lock()
	defer p.Unlock()
	if v := fresh(); v != nil {
		return v, nil
	}
	v := &View{Head: h, tenant: tenant, raw: raw, place: p}
	old := p.Value.Load()
	also := v.summaryItem(old)
	grown, err := svc.grow(ctx, v, old, want, also)
	if err == nil && !grown {
		var hs []transcript.Header
		if hs, _, err = svc.sessions.ReadHeaders(ctx, tenant, h.Extent(), want, also); err == nil {
			v.Append(hs)
		}
	}
	if err != nil {
		return nil, err
	}
	if also != nil {
		v.Summary = svc.sessions.ParseSummary(tenant, h.Incarnation, h.Covered().Version, *also)
	}
	p.Value.Store(v)
	svc.places.Weigh(p, v.weigh())
	return v, nil
}

// grow builds a view from an older one if at most 64 turns were appended since. It reads only the new messages and
// reuses everything else. It returns false if the session does not follow from the older view, for example because the
// store was restored to an earlier state.
func (svc *Service) grow(ctx context.Context, v, old *View, want int, also *store.Item) (bool, error) {
	if old == nil || !old.whole(want) || v.Head.Messages < old.Head.Messages || v.Head.Turns-old.Head.Turns > 64 ||
		v.Head.Changes != old.Head.Changes { // The lineage before the newest turns does not tell of changes after them.
		return false, nil
	}
	added, came := int(v.Head.Messages-old.Head.Messages), v.Head.Lineage == old.Head.Lineage
	hs, behind, err := svc.sessions.ReadHeaders(ctx, v.tenant, v.Head.Extent(), added, also)
	if came = came || behind == old.Head.Lineage; err != nil || !came || len(hs) != added {
		return false, err
	}
	v.grow(old, hs)
	return true, nil
}

// ErrErased means that an earlier state of a session cannot be read, because former versions of its messages are not
// stored any more.
var ErrErased = errors.New("former versions of messages are not stored any more")

// at returns a view of an earlier state of a session, with the former versions of messages changed since. It is not
// cached.
func (svc *Service) at(ctx context.Context, tenant string, x transcript.Extent, want int, former transcript.Formers) (*View, error) {
	hs, _, err := svc.sessions.ReadHeaders(ctx, tenant, x, want, nil)
	if err != nil {
		return nil, err
	}
	former.Restore(hs)
	v := &View{Head: headOf(x), tenant: tenant, former: former}
	v.Append(hs)
	return v, nil
}

func headOf(x transcript.Extent) *session.Head {
	return &session.Head{Incarnation: x.Incarnation, Turns: x.Turns, Messages: x.Messages, Superseded: x.Superseded, Edits: x.Edits}
}

// Past returns a view of an earlier state of a session. h is the head just read, and raw its bytes. It reuses the
// cached view of the session if it can, because most decisions that are looked at are recent. It returns ErrErased.
func (svc *Service) Past(ctx context.Context, tenant string, h *session.Head, raw []byte, x transcript.Extent, want int,
) (*View, error) {
	if h == nil { // the session does not exist yet
		return svc.at(ctx, tenant, x, want, nil)
	}
	var former transcript.Formers
	if h.Edits > x.Edits {
		var whole bool
		var err error
		former, whole, err = svc.sessions.Undo(ctx, tenant, x.Incarnation, x.Edits, h.Edits)
		if err == nil && !whole {
			err = ErrErased
		}
		if err != nil {
			return nil, err
		}
	}
	same := h.Superseded.Upto(x.Messages).Equal(x.Superseded) // otherwise messages that were alive then have been superseded since
	if !same || former != nil || x.Messages == 0 || want+int(min(h.Messages-x.Messages, project.MaxConsidered)) > project.MaxConsidered+1 {
		return svc.at(ctx, tenant, x, want, former)
	}
	now, err := svc.Current(ctx, tenant, h, raw, want+int(h.Messages-x.Messages))
	if err != nil {
		return nil, err
	}
	n, _ := slices.BinarySearchFunc(now.Rows, x.Messages+1, func(r Row, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	return &View{Head: headOf(x), Rows: now.Rows[:n:n], Names: slices.Clip(now.Names), tenant: tenant, of: now}, nil
}

// Widen returns a view of the same revision that holds at least the newest want messages.
func (svc *Service) Widen(ctx context.Context, v *View, want int) (*View, error) {
	if v.place == nil {
		return svc.at(ctx, v.tenant, v.Head.Extent(), want, v.former)
	}
	return svc.Current(ctx, v.tenant, v.Head, v.raw, want)
}

// Load reads the bodies of those rows that are not in memory. It marks bodies that cannot be read as damaged and
// returns their number.
func (svc *Service) Load(ctx context.Context, v *View, rows []*Row) (damaged int, err error) {
	var need []*Row
	for _, r := range rows {
		if r != nil && r.Message.Load() == nil && !r.Damaged.Load() && !r.Lost() {
			need = append(need, r)
		}
	}
	if len(need) == 0 {
		return 0, nil
	}
	// A call appears once for each of its results.
	slices.SortFunc(need, func(x, y *Row) int { return cmp.Compare(x.Seq, y.Seq) })
	need = slices.Compact(need)
	for part := range slices.Chunk(need, records.MaxOfOneRead) {
		n, err := svc.fetch(ctx, v, part)
		damaged += n
		if err != nil {
			return damaged, err
		}
	}
	if v.of != nil {
		v = v.of
	}
	if v.place != nil {
		svc.places.Weigh(v.place, v.weigh())
	}
	return damaged, nil
}

// fetch reads the bodies of rows in one round trip.
func (svc *Service) fetch(ctx context.Context, v *View, rows []*Row) (damaged int, err error) {
	keys := make([][]byte, len(rows))
	for i, r := range rows {
		keys[i] = records.Body.Key(v.Head.Incarnation, r.Seq)
	}
	got, err := svc.db.Store.Read(ctx, v.tenant, store.Query{Keys: keys})
	if err != nil {
		return 0, err
	}
	bodies := make([][]byte, len(rows))
	for i := range rows {
		bodies[i] = got.Keys[i].Value
		if was, ok := v.former[rows[i].Seq]; ok {
			bodies[i] = was
		}
	}
	if err := svc.sessions.Fill(ctx, v.tenant, v.Head.Incarnation, bodies); err != nil {
		return 0, err
	}
	for i, r := range rows {
		h, m, err := transcript.ParseBody(bodies[i])
		if err == nil && h.Said != r.Said {
			h, m, err = svc.before(ctx, v, r.Seq, h, m)
		}
		if err != nil || h.Seq != r.Seq {
			r.Damaged.Store(true)
			damaged++
			continue
		}
		r.Message.Store(m)
	}
	return damaged, nil
}

// before returns the version of a message that a view shows, if it was changed after the view's head was read. Otherwise
// it returns what is stored now.
func (svc *Service) before(ctx context.Context, v *View, seq uint64, h *transcript.Header, m *chat.Message) (
	*transcript.Header, *chat.Message, error) {
	for n := v.Head.Edits + 1; ; n++ {
		c, err := svc.sessions.ReadChange(ctx, v.tenant, v.Head.Incarnation, n)
		if err != nil || c == nil {
			return h, m, err
		}
		for _, item := range c.Items {
			if item.Seq == seq {
				return transcript.ParseBody(item.Was)
			}
		}
	}
}
