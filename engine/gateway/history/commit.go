package history

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// maxWaiting limits how many exchanges of one session wait to be stored.
const maxWaiting = 256

// maxAttempts limits how often an exchange is matched again because others stored something in the meantime.
const maxAttempts = 32

// Commit stores an exchange whose reply is complete. If there is nothing to store, Stored says why. An error means that
// something could not be stored.
func (svc *Service) Commit(ctx context.Context, c ident.Caller, projectID string, x *Exchange, r Reply) (Stored, error) {
	out := Stored{Session: x.Session, Revision: x.Revision, Reason: x.Unstored}
	if out.Reason != "" {
		return out, nil
	}
	if x.ask.Format != chat.OpenAIResponses { // Only Responses requests refer to responses by id.
		r.ResponseID = ""
	}
	reply, err := listen(x.ask.Format, r.Messages)
	switch {
	case err != nil || len(reply.parsed) == 0:
		out.Reason = unreadable
	case r.Stop == "refusal" && !slices.ContainsFunc(reply.parsed, func(m message) bool { return m.spoken }):
		out.Reason = refused
	}
	if out.Reason != "" {
		return out, nil
	}
	if reply.calls() || r.Stop == "pause_turn" {
		err := svc.goOn(ctx, c, projectID, x, &reply, &r, &out)
		return out, err
	}
	// Commits to one session take turns here, so only another server can get in between.
	leave, err := svc.queues.Enter(ctx, c.Tenant+"\x00"+projectID+"\x00"+x.base)
	if errors.Is(err, admission.ErrFull) {
		out.Reason = contended
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer leave()
	f := x.first
	for range maxAttempts {
		err := svc.store(ctx, c, projectID, x, &f, &reply, r, &out)
		known, ok := fault.As(err)
		if !ok || known.Code != "revision_changed" && known.Code != "session_exists" {
			return out, err
		}
		places, err := svc.places(ctx, c, projectID, x)
		if err != nil {
			return out, err
		}
		if known.Code == "session_exists" {
			_, x.taken = ident.Forked(f.to)
		}
		if f, err = svc.again(ctx, c, x, places); err != nil {
			return out, err
		}
		if f.to == "" {
			out.Reason = changedMeanwhile
			return out, nil
		}
	}
	out.Reason = contended
	return out, nil
}

// goOn remembers the messages so far of a turn that continues with the client's next request.
func (svc *Service) goOn(ctx context.Context, c ident.Caller, projectID string, x *Exchange, reply *saying, r *Reply,
	out *Stored) error {
	said, err := heard(x.ask.Format, x.first.pending, reply, r)
	if err != nil {
		out.Reason = unreadable
		return nil
	}
	l := x.loop(&x.first, said)
	if err := svc.noteOpen(ctx, c, projectID, x, l, x.first.loop, r); err != nil {
		return err
	}
	out.Open = true
	svc.remember(c, x, func(ls *loops) *loops { return ls.with(l) })
	return nil
}

// loop returns the open turn of an exchange.
func (x *Exchange) loop(f *found, said saying) *loop {
	l := &loop{session: f.id, agent: x.Delegation, incarnation: f.incarnation(), keep: f.keep, base: f.base(), said: said,
		shown: said.shown(), given: x.given[f.id], begins: f.begins}
	if f.loop != nil {
		l.given = f.loop.given
	}
	return l
}

// heard joins the pending messages and a reply, in newly allocated memory. The reply names its decision.
func heard(f chat.Format, pending []*transcript.Element, reply *saying, r *Reply) (saying, error) {
	list := make([]*transcript.Element, 0, len(pending)+len(r.Hidden)+len(reply.raw))
	add := func(e *transcript.Element) {
		if !e.IsRead() { // It is part of the request or of the answer.
			e = &transcript.Element{Raw: slices.Clone(e.Raw)}
		}
		list = append(list, e)
	}
	for _, e := range pending {
		add(e)
	}
	for _, m := range r.Hidden {
		hidden := transcript.Element{Raw: m}
		add(hidden.Hide())
	}
	for i := range reply.raw {
		add(reply.element(i))
	}
	said, err := listenTo(f, list)
	if err != nil || r.DecisionID == "" {
		return said, err
	}
	first := slices.IndexFunc(said.parsed, func(m message) bool {
		return m.Index >= len(pending) && m.Role == plan.RoleAssistant
	})
	if first < 0 {
		return said, nil
	}
	at := said.parsed[first].Index
	if said.read != nil {
		list = said.read
	}
	list[at] = list[at].Decided(r.DecisionID)
	return listenTo(f, list)
}

// again matches an exchange once more, because its session changed while the reply was awaited. It takes back only
// turns that existed when the request began, or that an identical request has stored since: of two identical requests
// sent at once, one turn remains. Anything else goes to a fork. If the client changed its history in the meantime, the
// request is out of date: it is stored only if it continues the history as it is now.
func (svc *Service) again(ctx context.Context, c ident.Caller, x *Exchange, places []place) (found, error) {
	f, err := svc.find(ctx, c, x, places)
	if err != nil {
		return f, err
	}
	if x.changedMeanwhile(places) {
		if f.match.Case != align.Extend || f.back != nil {
			f.to = ""
		}
		f.change = nil
		return f, nil
	}
	if x.outdated(&f) {
		f.to = ""
		return f, nil
	}
	late := f.guessed && f.line.lastTurn() > x.given[f.id] // The request did not see the newest turns.
	if f.copies || f.takes || f.back == nil && f.match.Case != align.None && !late {
		return f, nil
	}
	if f.back != nil && f.id == x.first.id && !f.others(x.Delegation, max(*f.back, x.given[f.id])) &&
		(f.line.lastTurn() <= x.given[f.id] || svc.twin(c, x, &f)) {
		return f, nil
	}
	out := x.first
	out.to = x.freeFork(places)
	out.pending = withoutDecisions(out.pending)
	if out.keep == 0 { // Nothing is stored before it.
		out.place, out.line, out.back, out.copies = place{id: out.to}, line{}, nil, false
		return out, nil
	}
	for i := range places { // It goes to a copy of the session as it was.
		p := &places[i]
		if p.id != out.id || p.line.Len() < out.keep {
			continue
		}
		if p.line.chained(out.keep) == out.base() {
			out.place, out.back, out.copies = *p, new(p.line.turn[out.keep-1]), true
			return out, nil
		}
	}
	return x.startFork(places), nil
}

// changedMeanwhile reports whether messages that existed when the request began have been changed or removed since.
func (x *Exchange) changedMeanwhile(places []place) bool {
	was := x.first.place
	for i := range places {
		if p := &places[i]; p.id == was.id && was.head != nil && p.head != nil && p.incarnation() == was.incarnation() {
			return p.head.Changes != was.head.Changes
		}
	}
	return false
}

// outdated reports whether the line has newer versions of the request's messages, stored since the request began.
func (x *Exchange) outdated(f *found) bool {
	return f.aligned != nil && slices.ContainsFunc(f.aligned.Changes, func(c align.Pair) bool {
		return c.Stored < f.stored.upto && f.stored.Turn(c.Stored) > x.given[f.id] && x.differs(f.stored, f.request, c)
	})
}

// twin reports whether the request would take back exactly one turn, made by an identical request.
func (svc *Service) twin(c ident.Caller, x *Exchange, f *found) bool {
	if f.match.Case != align.Rewind || f.line.turn[f.keep] != f.line.lastTurn() {
		return false
	}
	made, known := svc.openTurns(c, x).body(f.id, f.line.lastTurn())
	return !known || made == x.ask.body()
}

// change returns the other changes of a commit. The kind of a conversation is set by its first request that states one.
func (x *Exchange) change(f *found) *session.Change {
	c := new(session.Change)
	if f.change != nil {
		*c = *f.change
	}
	if f.to == x.base {
		c.Forks = x.forks
	}
	if f.match.Case == align.SideCall || x.Delegation != "" {
		return c
	}
	c.Begins = f.begins
	known := f.head != nil && f.head.Sent != nil && f.head.Sent.Kind != ""
	if x.ask.Kind == "" || known && !f.takes {
		return c
	}
	sent := new(session.Sent)
	switch {
	case c.Sent != nil:
		*sent = *c.Sent
	case f.head != nil && f.head.Sent != nil:
		*sent = *f.head.Sent
	}
	if f.takes {
		*sent = session.Sent{}
	}
	sent.Kind, c.Sent = x.ask.Kind, sent
	sent.Plain = f.keep == 0 && x.plain()
	return c
}

// withoutDecisions returns the messages without their decision ids, which belong to another session.
func withoutDecisions(list []*transcript.Element) []*transcript.Element {
	out := make([]*transcript.Element, len(list))
	for i, e := range list {
		out[i] = e.Undecided()
	}
	return out
}

// store commits the pending messages with the reply, at the revision at which the request was matched. It returns
// revision_changed or session_exists if another commit came first.
func (svc *Service) store(ctx context.Context, c ident.Caller, projectID string, x *Exchange, f *found, reply *saying,
	r Reply, out *Stored) error {
	if f.to != x.Session {
		r.DecisionID, f.pending = "", withoutDecisions(f.pending)
	}
	decision := r.DecisionID
	r.DecisionID = "" // The turn names it.
	all, err := heard(x.ask.Format, f.pending, reply, &r)
	if err != nil {
		out.Reason = unreadable
		return nil
	}
	req := session.TurnRequest{SessionID: f.to, Format: all.format.String(), RewindTo: f.back,
		IfRevision: new(f.revision()), Mode: transcript.ModeRepair, Namespace: x.ask.Namespace}
	if x.Delegation != "" {
		req.DelegationID = &x.Delegation
	}
	if _, n := ident.Forked(f.to); n > 0 && !x.recent(n) {
		if err := svc.sessions.NoteFork(ctx, c, projectID, x.base, x.forks, n); err != nil {
			return err
		}
	}
	if f.match.Case == align.SideCall && f.head == nil {
		if err := svc.makeSide(ctx, c, projectID, f.to, x.ask.Namespace); err != nil {
			return err
		}
		req.IfRevision = nil // Side calls do not depend on each other.
	}
	if f.copies {
		s, err := svc.sessions.Fork(ctx, c, ident.Once{}, projectID, f.id, session.ForkRequest{AtTurn: f.back, As: f.to})
		if err != nil {
			return err
		}
		req.RewindTo, req.IfRevision = nil, &s.Revision
	} else {
		req.Change = x.change(f)
	}
	if err := svc.noteResponse(ctx, c, x, f, &r, &all); err != nil {
		return err
	}
	starts := all.turns()
	for i, start := range starts[:len(starts)-1] {
		req.Elements = all.cut(start, starts[i+1])
		if i == len(starts)-2 {
			req.DecisionID = decision
		}
		done, err := svc.sessions.AppendTurn(ctx, c, ident.Once{}, projectID, req)
		if err != nil {
			return err
		}
		out.Session, out.Turn, out.Revision = f.to, done.Turn, done.Revision
		req.RewindTo, req.IfRevision, req.Change = nil, &done.Revision, nil
	}
	svc.remember(c, x, func(ls *loops) *loops {
		return ls.stored(x.loop(f, all), body{session: f.to, turn: out.Turn, hash: x.ask.body()})
	})
	return nil
}

// makeSide creates the session of side calls, unless another request has.
func (svc *Service) makeSide(ctx context.Context, c ident.Caller, projectID, id string, namespace []string) error {
	_, err := svc.sessions.Create(ctx, c, ident.Once{}, projectID, session.Spec{ID: id, Kind: session.KindBackground,
		Namespace: namespace})
	if known, ok := fault.As(err); ok && known.Code == "session_exists" {
		return nil
	}
	return err
}
