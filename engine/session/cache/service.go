// Package cache keeps recently used sessions in memory as windows look at them: the head, the newest messages, and what
// was made of their bodies. A view in memory never shows: it is used only while the head just read from the store has
// the bytes of the view's head, or follows from it by appended turns.
package cache

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/seed-0906e6bc/mneme/engine/lru"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Service keeps views, the least recently used going first.
type Service struct {
	db       *records.DB
	sessions *session.Service
	places   *lru.Map[*atomic.Pointer[View]]
}

// place is where the view of one session is kept. Its mutex lets one load at a time.
type place = lru.Cell[*atomic.Pointer[View]]

// New makes the room. The views that it keeps take at most limit bytes; 0: 64 MiB.
func New(db *records.DB, sessions *session.Service, limit int) *Service {
	return &Service{db: db, sessions: sessions,
		places: lru.New(limit, func() *atomic.Pointer[View] { return new(atomic.Pointer[View]) })}
}

// Current gives a view of the session at the head just read, of which raw are the bytes, holding at least the newest
// want messages. What was read in another epoch of the store is not found any more, and goes as the least recently
// used.
func (svc *Service) Current(ctx context.Context, tenant string, h *session.Head, raw []byte, want int) (*View, error) {
	p := svc.places.Cell(store.Epoch(svc.db.Store) + "/" + tenant + "/" + string(h.Incarnation[:]))
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

// grow makes a view out of the one before where the session came from that by at most 64 turns: only what is new is
// read, and the rest keeps what was made of it. It is false where that is not known, because a store may have gone back.
func (svc *Service) grow(ctx context.Context, v, old *View, want int, also *store.Item) (bool, error) {
	if old == nil || !old.whole(want) || v.Head.Messages < old.Head.Messages || v.Head.Turns-old.Head.Turns > 64 {
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

// At gives a view of an earlier state of a session, for replays. It is not kept.
func (svc *Service) At(ctx context.Context, tenant string, x transcript.Extent, want int) (*View, error) {
	hs, _, err := svc.sessions.ReadHeaders(ctx, tenant, x, want, nil)
	if err != nil {
		return nil, err
	}
	v := &View{Head: &session.Head{Incarnation: x.Incarnation, Turns: x.Turns, Messages: x.Messages,
		Superseded: x.Superseded}, tenant: tenant}
	v.Append(hs)
	return v, nil
}

// Past gives a view of an earlier state of a session, whose head was just read, with its bytes. What is in memory of
// the session serves for its past too: most decisions that somebody reads were made lately.
func (svc *Service) Past(ctx context.Context, tenant string, h *session.Head, raw []byte, x transcript.Extent, want int,
) (*View, error) {
	if h == nil { // the session is yet to be
		return svc.At(ctx, tenant, x, want)
	}
	same := h.Superseded.Upto(x.Messages).Equal(x.Superseded) // Else what lived then is superseded by now.
	if !same || x.Messages == 0 || want+int(min(h.Messages-x.Messages, project.MaxConsidered)) > project.MaxConsidered+1 {
		return svc.At(ctx, tenant, x, want)
	}
	now, err := svc.Current(ctx, tenant, h, raw, want+int(h.Messages-x.Messages))
	if err != nil {
		return nil, err
	}
	n, _ := slices.BinarySearchFunc(now.Rows, x.Messages+1, func(r Row, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	return &View{Head: &session.Head{Incarnation: x.Incarnation, Turns: x.Turns, Messages: x.Messages,
		Superseded: x.Superseded}, Rows: now.Rows[:n:n], Names: slices.Clip(now.Names), tenant: tenant, of: now}, nil
}

// Widen gives the view of the same revision that holds at least the newest want messages.
func (svc *Service) Widen(ctx context.Context, v *View, want int) (*View, error) {
	if v.place == nil {
		return svc.At(ctx, v.tenant, v.Head.Extent(), want)
	}
	return svc.Current(ctx, v.tenant, v.Head, v.raw, want)
}

// Load fetches the bodies of rows that are not in memory. One that cannot be read is marked damaged, and counted.
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
	// A call is asked for once more with each of its results.
	slices.SortFunc(need, func(x, y *Row) int { return cmp.Compare(x.Seq, y.Seq) })
	need = slices.Compact(need)
	for part := range slices.Chunk(need, records.MaxOfOneRead) {
		n, err := svc.fetch(ctx, v, part)
		if damaged += n; err != nil {
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
	for i, r := range rows {
		h, m, err := transcript.ParseBody(got.Keys[i].Value)
		if err != nil || h.Seq != r.Seq {
			r.Damaged.Store(true)
			damaged++
			continue
		}
		r.Message.Store(m)
	}
	return damaged, nil
}
