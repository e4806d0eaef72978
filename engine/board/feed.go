package board

import (
	"context"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"

	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Event is one thing that happened on a board: its Data is an Entry or a Notification, and its ID is that of the Data.
// An export gives a Value, too, whose ID is its key.
type Event = records.Event

// Feed gives at most 64 events of a board at once.
type Feed = records.Feed

// A feed gives at most feedEvents events and feedBytes bytes of content at once.
const (
	feedEvents = 64
	feedBytes  = 1 << 20
)

// follower is a Feed of one board. It holds nothing but a position: what happens meanwhile is read from the store.
type follower struct {
	svc   *Service
	c     ident.Caller
	board string
	inc   ident.Incarnation
	topic *topic
	after uint64 // number of the last event that was given or passed over
	next  nextEvents
}

// nextEvents gives some of the events behind a feed's position, moves the position on, and tells whether there may be
// more. Lost is as in readSteadily.
type nextEvents func(ctx context.Context, f *follower, b *boardRecord, lost bool) (out []Event, more bool, err error)

func (svc *Service) follow(c ident.Caller, b *boardRecord, after uint64, next nextEvents) Feed {
	return &follower{svc: svc, c: c, board: b.ID, inc: b.Incarnation, after: after, next: next,
		topic: svc.followers.join(topicOf(c.Tenant, b.ID))}
}

func (f *follower) News() <-chan struct{} { return f.svc.followers.news(f.topic) }

func (f *follower) Close() { f.svc.followers.leave(topicOf(f.c.Tenant, f.board)) }

func (f *follower) Next(ctx context.Context) (out []Event, err error) {
	for more := true; more && len(out) == 0 && err == nil; {
		err = f.svc.readSteadily(ctx, f.c, f.board, func(b *boardRecord, lost bool) (err error) {
			if b.Incarnation != f.inc {
				return noBoard(f.board)
			}
			out, more, err = f.next(ctx, f, b, lost)
			return err
		})
	}
	return out, err
}

// Follow says where a stream of entries begins: behind the entry After, else with the entries made at Since or later,
// else with the next entry.
type Follow struct {
	After  string
	Since  *time.Time
	IsChat *bool
}

// Follow streams a board's entries. It answers invalid_id where After is no id of an entry.
func (svc *Service) Follow(ctx context.Context, c ident.Caller, id string, from Follow) (Feed, error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return nil, err
	}
	after := b.Last
	switch {
	case from.After != "":
		if after, err = ident.ParseNumbered(entryPrefix, "Last-Event-ID", from.After, b.Incarnation); err != nil {
			return nil, err
		}
		from.Since = nil
	case from.Since != nil:
		s, err := svc.choose(ctx, c.Tenant, b, &Filter{Since: from.Since})
		if err != nil {
			return nil, err
		}
		if s.Last > 0 {
			after = s.First - 1
		}
	}
	filter := Filter{IsChat: from.IsChat}
	next := func(ctx context.Context, f *follower, b *boardRecord, lost bool) ([]Event, bool, error) {
		return f.entries(ctx, b, &filter, b.Last, from.Since, lost)
	}
	return svc.follow(c, b, after, next), nil
}

// Export gives all entries that a board has now, oldest first, and then its values, by key. The feed ends with the
// first Next that gives nothing.
func (svc *Service) Export(ctx context.Context, c ident.Caller, id string) (Feed, error) {
	b, err := svc.read(ctx, c, id)
	if err != nil {
		return nil, err
	}
	last, key := b.Last, ""
	return svc.follow(c, b, 0, func(ctx context.Context, f *follower, b *boardRecord, lost bool) ([]Event, bool, error) {
		out, more, err := f.entries(ctx, b, &Filter{}, last, nil, lost)
		if err != nil || more || len(out) > 0 {
			return out, more, err
		}
		if out, err = svc.valueEvents(ctx, c.Tenant, b, key); len(out) > 0 {
			key = out[len(out)-1].ID
		}
		return out, false, err
	}), nil
}

// entries gives some of the entries behind the feed's position, up to the number last. Entries made before since are
// passed over, because a time that lies ahead is waited for.
func (f *follower) entries(ctx context.Context, b *boardRecord, filter *Filter, last uint64, since *time.Time, lost bool) (
	out []Event, more bool, err error) {
	if f.after >= last {
		return nil, false, nil
	}
	entries, err := f.upcoming(ctx, b, filter, last, lost)
	if err != nil {
		return nil, false, err
	}
	if len(entries) == 0 {
		f.after = last
	}
	for _, e := range entries {
		f.after = e.Seq
		chosen := (filter.IsChat == nil || *filter.IsChat == e.IsChat()) &&
			(since == nil || !records.TimeOf(e.Created).Before(*since))
		if chosen || e.Damaged {
			shown := shown(e, b)
			out = append(out, Event{ID: shown.ID, Data: shown})
		}
	}
	return out, len(entries) > 0, nil
}

// upcoming reads some of the entries behind the feed's position, up to the number last. A few are read by number, as a
// feed does that keeps up. Over a longer way, or where some are gone, the index leads.
func (f *follower) upcoming(ctx context.Context, b *boardRecord, filter *Filter, last uint64, lost bool) (
	[]*Stored, error) {
	if last-f.after <= feedEvents {
		var seqs []uint64
		for seq := f.after + 1; seq <= last; seq++ {
			seqs = append(seqs, seq)
		}
		entries, err := f.svc.readEntries(ctx, f.c.Tenant, b, seqs, feedBytes, false)
		if !errors.Is(err, ErrGone) {
			return entries, err
		}
	}
	s, err := f.svc.choose(ctx, f.c.Tenant, b, filter)
	if err != nil {
		return nil, err
	}
	s.First, s.Last, s.Counted = f.after+1, last, true // The count is not asked for.
	seqs, _, err := s.Page(ctx, true, 0, feedEvents)
	if err != nil {
		return nil, err
	}
	return f.svc.readEntries(ctx, f.c.Tenant, b, seqs, feedBytes, lost)
}

// InboxFollow says where a stream of notifications begins, as Follow does. Base is as in InboxQuery.
type InboxFollow struct {
	After string
	Since *time.Time
	Base  string
}

// FollowInbox streams an agent's notifications. It answers not_found where the board has no such agent, and invalid_id
// where After is no id of a notification.
func (svc *Service) FollowInbox(ctx context.Context, c ident.Caller, id, agent string, from InboxFollow) (Feed,
	error) {
	b, a, err := svc.readAgent(ctx, c, id, agent)
	if err != nil {
		return nil, err
	}
	after, inbox := a.Last, a.Inbox
	switch {
	case from.After != "":
		if after, err = ident.ParseNumbered(noticePrefix, "Last-Event-ID", from.After, inbox); err != nil {
			return nil, err
		}
		from.Since = nil
	case from.Since != nil:
		after = 0
	}
	return svc.follow(c, b, after, func(ctx context.Context, f *follower, b *boardRecord, _ bool) ([]Event, bool, error) {
		a, err := svc.agent(ctx, c.Tenant, b, agent)
		if err != nil {
			return nil, false, err
		}
		if a.Inbox != inbox {
			return nil, false, noAgent(b, agent)
		}
		return f.notifications(ctx, b, a, from)
	}), nil
}

// notifications gives some of those behind the feed's position, and whether there may be more.
func (f *follower) notifications(ctx context.Context, b *boardRecord, a *agentRecord, from InboxFollow) (
	out []Event, more bool, err error) {
	if f.after >= a.Last {
		return nil, false, nil
	}
	shown, last, err := f.svc.notices(ctx, f.c.Tenant, b, a, f.after, feedEvents, from.Base)
	if err != nil {
		return nil, false, err
	}
	if len(shown) == 0 {
		f.after = a.Last
		return nil, false, nil
	}
	f.after = last
	for _, n := range shown {
		if from.Since == nil || !n.CreatedAt.Before(*from.Since) {
			out = append(out, Event{ID: n.ID, Data: n})
		}
	}
	return out, true, nil
}
