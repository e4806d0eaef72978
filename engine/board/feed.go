package board

import (
	"context"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

const (
	// feedEvents and feedBytes bound what a feed gives at once.
	feedEvents = 64
	feedBytes  = 1 << 20
)

// Event is one thing that happened on a board: a BoardEntry or a Notification.
type Event struct {
	ID   string
	Data any
}

// Feed gives events in order, each once, from a position on. For one goroutine.
type Feed interface {
	// News is closed when there may be something new, from now on. Take it before asking Next, so that nothing is
	// missed. It tells of what this process did; for what others do, ask Next every so often.
	News() <-chan struct{}
	// Next gives what comes next and is there already: nothing where nothing is. What was deleted, is not_found, also
	// where there is another of its name now.
	Next(ctx context.Context) ([]Event, error)
	Close()
}

// feed is a Feed of one board. It holds nothing but a position: what happens meanwhile is read from the store.
type feed struct {
	e     *Service
	c     access.Caller
	board string
	inc   ident.Incarnation
	topic *topic
	after uint64 // number of the last event given, or passed over
	lost  bool   // the board is as it was when an entry was not there
	next  func(ctx context.Context, f *feed, b *Record) (out []Event, more bool, err error)
}

func (f *feed) News() <-chan struct{} { return f.e.followers.news(f.topic) }

func (f *feed) Next(ctx context.Context) ([]Event, error) {
	for before := uint64(0); ; {
		b, err := f.e.read(ctx, f.c, f.board)
		if err != nil {
			return nil, err
		}
		if b.Incarnation != f.inc {
			return nil, no(f.board)
		}
		f.lost = b.Revision == before
		out, more, err := f.next(ctx, f, b)
		if errors.Is(err, errEntryGone) {
			before = b.Revision // it was deleted while this was read, unless the board is as it was then
			continue
		}
		if err != nil || len(out) > 0 || !more {
			return out, err
		}
	}
}

func (f *feed) Close() { f.e.followers.leave(topicOf(f.c.Tenant, f.board)) }

func (svc *Service) follow(c access.Caller, b *Record, after uint64,
	next func(context.Context, *feed, *Record) ([]Event, bool, error)) Feed {
	return &feed{e: svc, c: c, board: b.ID, inc: b.Incarnation, after: after, next: next,
		topic: svc.followers.join(topicOf(c.Tenant, b.ID))}
}

// Follow streams a board's entries.
func (svc *Service) Follow(ctx context.Context, c access.Caller, id string, from Follow) (Feed, error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return nil, err
	}
	after := b.Last
	switch {
	case from.After != "":
		if after, err = parseNumberedID(entryIDPrefix, "Last-Event-ID", from.After, b.Incarnation); err != nil {
			return nil, err
		}
		from.Since = nil
	case from.Since != nil:
		s := selection{first: 1, last: b.Last}
		if err := svc.bound(ctx, c.Tenant, b, &Filter{Since: from.Since}, &s); err != nil {
			return nil, err
		}
		if s.last > 0 {
			after = s.first - 1
		}
	}
	filter := Filter{IsChat: from.IsChat}
	return svc.follow(c, b, after, func(ctx context.Context, f *feed, b *Record) ([]Event, bool, error) {
		return f.entries(ctx, b, filter, b.Last, from.Since)
	}), nil
}

// Export gives all entries that a board has now, oldest first; the feed ends with the first Next that gives
// nothing.
func (svc *Service) Export(ctx context.Context, c access.Caller, id string) (Feed, error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return nil, err
	}
	last := b.Last
	return svc.follow(c, b, 0, func(ctx context.Context, f *feed, b *Record) ([]Event, bool, error) {
		return f.entries(ctx, b, Filter{}, last, nil)
	}), nil
}

// entries gives some of the entries behind the feed's position, up to a number, and whether there may be more. A time
// that lies ahead is waited for.
func (f *feed) entries(ctx context.Context, b *Record, filter Filter, last uint64, since *time.Time) (
	out []Event, more bool, err error) {
	if f.after >= last {
		return nil, false, nil
	}
	entries, err := f.upcoming(ctx, b, filter, last)
	if err != nil {
		return nil, false, err
	}
	if len(entries) == 0 {
		f.after = last
	}
	for _, entry := range entries {
		f.after = entry.seq
		chosen := entry.damaged || filter.IsChat == nil || *filter.IsChat == entry.isChat()
		if chosen && (entry.damaged || since == nil || !records.TimeOf(entry.Created).Before(*since)) {
			shown := entry.shown(b)
			out = append(out, Event{ID: shown.ID, Data: shown})
		}
	}
	return out, len(entries) > 0, nil
}

// upcoming reads some of the entries behind the feed's position, up to a number. A few are read by number, as a feed
// that keeps up does; over a longer way, or where some are gone, the index leads.
func (f *feed) upcoming(ctx context.Context, b *Record, filter Filter, last uint64) ([]*storedEntry, error) {
	var seqs []uint64
	if last-f.after <= feedEvents {
		for seq := f.after + 1; seq <= last; seq++ {
			seqs = append(seqs, seq)
		}
		entries, err := f.e.readEntries(ctx, f.c.Tenant, b, seqs, feedBytes, false)
		if !errors.Is(err, errEntryGone) {
			return entries, err
		}
	}
	s, err := f.e.choose(ctx, f.c.Tenant, b, &filter)
	if err != nil {
		return nil, err
	}
	s.first, s.last, s.counted = f.after+1, last, true // the count is not asked for
	seqs, _, err = s.page(ctx, f.e, f.c.Tenant, b, true, 0, feedEvents)
	if err != nil {
		return nil, err
	}
	return f.e.readEntries(ctx, f.c.Tenant, b, seqs, feedBytes, f.lost)
}

// FollowInbox streams an agent's notifications.
func (svc *Service) FollowInbox(ctx context.Context, c access.Caller, id, agent string, from InboxFollow) (Feed, error) {
	b, a, err := svc.readAgent(ctx, c, id, agent)
	if err != nil {
		return nil, err
	}
	after := a.Last
	switch {
	case from.After != "":
		if after, err = parseNumberedID(noticeIDPrefix, "Last-Event-ID", from.After, a.Inbox); err != nil {
			return nil, err
		}
		from.Since = nil
	case from.Since != nil:
		after = 0
	}
	inbox := a.Inbox
	return svc.follow(c, b, after, func(ctx context.Context, f *feed, b *Record) ([]Event, bool, error) {
		a, err := svc.agent(ctx, c.Tenant, b, agent)
		if err != nil {
			return nil, false, err
		}
		if a.Inbox != inbox {
			return nil, false, fault.Errorf(fault.NotFound, "not_found", "no agent %q on board %q", agent, b.ID)
		}
		return f.notifications(ctx, b, a, from)
	}), nil
}

// notifications gives some of those behind the feed's position, and whether there may be more.
func (f *feed) notifications(ctx context.Context, b *Record, a *agentRecord, from InboxFollow) (
	out []Event, more bool, err error) {
	if f.after >= a.Last {
		return nil, false, nil
	}
	shown, seqs, err := f.e.notices(ctx, f.c.Tenant, b, a, f.after, feedEvents, from.Base)
	if err != nil {
		return nil, false, err
	}
	if len(seqs) == 0 {
		f.after = a.Last
		return nil, false, nil
	}
	f.after = seqs[len(seqs)-1]
	for _, n := range shown {
		if from.Since == nil || !n.CreatedAt.Before(*from.Since) {
			out = append(out, Event{ID: n.ID, Data: n})
		}
	}
	return out, true, nil
}
