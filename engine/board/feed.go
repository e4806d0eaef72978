package board

import (
	"context"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"

	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Event is something that happened on a board. Its Data is an Entry or a Notification, and its ID is that of the Data.
// In an export, Data may also be a Value, and ID its key.
type Event = records.Event

// Feed returns at most 64 events of a board at a time.
type Feed = records.Feed

// A feed returns at most feedEvents events and feedBytes bytes of content at a time.
const (
	feedEvents = 64
	feedBytes  = 1 << 20
)

// follower is a Feed of one board. Its only state is a position; events are read from the store.
type follower struct {
	svc   *Service
	c     ident.Caller
	board string
	inc   ident.Incarnation
	topic *topic
	after uint64 // number of the last event that was returned or skipped
	next  nextEvents
}

// nextEvents returns some of the events after a feed's position, advances the position, and reports whether there may
// be more. For lost see readSteadily.
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

// Follow says where a stream of entries begins: after the entry After, or else with the entries made at Since or later,
// or else with the next entry.
type Follow struct {
	After  string
	Since  *time.Time
	IsChat *bool
}

// Follow streams a board's entries. It returns invalid_id if After is not the id of an entry.
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

// Export returns all entries that a board has now, oldest first, and then its values, by key. The feed ends when Next
// returns no events.
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

// entries returns some of the entries after the feed's position, up to the number last. It skips entries made before
// since, which may lie in the future.
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
			shown := public(e, b)
			out = append(out, Event{ID: shown.ID, Data: shown})
		}
	}
	return out, len(entries) > 0, nil
}

// upcoming reads some of the entries after the feed's position, up to the number last. If there are only a few, as in a
// feed that keeps up, it reads them by number. Otherwise, or if some were deleted, it uses the index.
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
	s.First, s.Last, s.Counted = f.after+1, last, true // the count is not needed
	seqs, _, err := s.Page(ctx, true, 0, feedEvents)
	if err != nil {
		return nil, err
	}
	return f.svc.readEntries(ctx, f.c.Tenant, b, seqs, feedBytes, lost)
}

// InboxFollow says where a stream of notifications begins, like Follow. For Base see InboxQuery.
type InboxFollow struct {
	After string
	Since *time.Time
	Base  string
}

// FollowInbox streams an agent's notifications. It returns not_found if the board has no such agent, and invalid_id if
// After is not the id of a notification.
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

// notifications returns some of the notifications after the feed's position, and whether there may be more.
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
