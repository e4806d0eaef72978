package history

import (
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
)

// Reasons why an exchange is not stored.
const (
	noSession  = "no_session"
	unreadable = "unreadable_reply"
	refused    = "refusal"
	contended  = "contended"
	// changedMeanwhile: the client changed its history while the reply was awaited.
	changedMeanwhile = "changed_meanwhile"
)

// Begin determines which part of a request is already stored. It returns invalid_messages if a message cannot be read,
// not_found if the project does not exist, and previous_response_not_found if the request continues an unknown response
// and does not include its history. A request that will not be stored still returns an Exchange, which says why.
func (svc *Service) Begin(ctx context.Context, c ident.Caller, projectID string, ask Ask) (*Exchange, error) {
	resp, err := svc.before(ctx, c, projectID, &ask)
	if err != nil {
		return nil, err
	}
	if ask.Previous != "" {
		resp = ask.follow(resp)
	}
	x := &Exchange{Session: ask.Session, Delegation: ask.Agent, ask: ask, given: map[string]uint32{}}
	if ask.Session == "" && ask.Previous != "" {
		return nil, errUnknown(ask.Previous)
	}
	if ask.Session == "" {
		if x.said, err = listen(ask.Format, ask.Messages); err != nil {
			return nil, err
		}
		x.Unstored, x.Match = noSession, align.Match{Case: align.None}
		x.first.pending = x.said.cut(0, len(x.said.parsed))
		x.first.shown.pending = x.first.pending
		return x, nil
	}
	if err := ident.CheckID("session_id", ask.Session); err != nil {
		return nil, err
	}
	x.base, _ = ident.Forked(ask.Session)
	places, err := svc.places(ctx, c, projectID, x)
	if err != nil {
		return nil, err
	}
	if err := svc.readRequest(ctx, c, projectID, x, places); err != nil {
		return nil, err
	}
	if resp != nil {
		if x.resumed, err = svc.resume(ctx, c.Tenant, &ask, resp, places); err != nil {
			return nil, err
		}
	}
	if err := svc.takeUp(ctx, c, projectID, x, places); err != nil {
		return nil, err
	}
	if x.first, err = svc.find(ctx, c, x, places); err != nil {
		return nil, err
	}
	f := &x.first
	if ask.Previous != "" && !ask.Delta && !f.whole() {
		return nil, errUnknown(ask.Previous)
	}
	x.said.read = nil // Pending messages have their own.
	x.Session, x.Match, x.Revision, x.AsOf = f.id, f.match, f.revision(), f.shown.upto
	x.Head = f.head
	if f.copies {
		x.Fork = f.to
	}
	return x, nil
}

// readRequest reads the messages of a request, with the items that it refers to, and notes the turns of the places.
func (svc *Service) readRequest(ctx context.Context, c ident.Caller, projectID string, x *Exchange, places []place) error {
	for i := range places {
		if h := places[i].head; h != nil {
			x.given[places[i].id] = h.Turns
		}
	}
	err := svc.resolve(ctx, c, x, places)
	if err == nil {
		x.said, err = svc.listen(c.Tenant, projectID, &x.ask)
	}
	return err
}

// follow makes the request a continuation of a response, if the response belongs to its session. In another session the
// request only sends new messages. follow returns the response if the request continues it, or nil.
func (a *Ask) follow(r *Response) *Response {
	if r == nil {
		return nil
	}
	a.Delta = true
	asked, _ := ident.Forked(a.Session)
	is, _ := ident.Forked(r.Session)
	if a.Session != "" && !a.Weak && asked != is {
		return nil
	}
	a.Session, a.Agent = r.Session, r.Agent
	return r
}

// resume finds the open turn that a request continues. A repeated request continues the same turn as before. It returns
// previous_response_not_found if the session no longer holds the messages that led to the response.
func (svc *Service) resume(ctx context.Context, tenant string, a *Ask, r *Response, places []place) (l *loop, err error) {
	i := slices.IndexFunc(places, func(p place) bool { return p.id == r.Session })
	if i >= 0 {
		p := &places[i]
		p.line = p.all[r.Agent]
		repeated := a.Previous == "" && a.Retries > 0 && r.Body == a.body()
		if l, err = svc.goesOn(ctx, tenant, a.Format, r, p, repeated); err != nil {
			return nil, err
		}
		switch {
		case l == nil && r.Else != nil:
			return svc.resume(ctx, tenant, a, r.Else, places)
		case l == nil || a.Previous != "":
		case l.keep != p.line.Len():
			return nil, nil
		case repeated && r.Open == nil && r.Else != nil:
			if l, err = svc.goesOn(ctx, tenant, a.Format, r.Else, p, false); l != nil {
				l.given = p.line.lastTurn()
			}
			return l, err
		case repeated && r.Open == nil:
			return old(p, r.Agent, p.line.lastStart()), nil
		}
	}
	if l == nil && a.Previous != "" {
		return nil, errUnknown(a.Previous)
	}
	return l, nil
}
