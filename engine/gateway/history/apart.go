package history

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// question reports whether a request is a single message of the user's.
func (x *Exchange) question() bool {
	return len(x.said.parsed) == 1 && x.said.parsed[0].Role == plan.RoleUser
}

// maxAside is how many messages a side call has at most. Some programs send the instruction and the question apart.
const maxAside = 4

// aside reports whether a request may be a side call: a few messages of the user's and none of the model's.
func (x *Exchange) aside() bool {
	return len(x.said.parsed) <= maxAside && len(x.said.parsed) > 0 &&
		!slices.ContainsFunc(x.said.parsed, func(m message) bool { return m.Role != plan.RoleUser })
}

// plain reports whether a request looks like a side call: it has no tools either.
func (x *Exchange) plain() bool { return x.aside() && !x.ask.Tools }

// apart returns the result for a request that matches none of the places.
//
//   - A single question of the same kind continues the session, unless the client always sends its history. Programs
//     that keep no history ask like this each time they run.
//   - A request of another kind that has nothing of the model's is a side call, such as the call for a title. But if the
//     session contains only a side call, and the request has tools or is quoted by the side call, then the request is the
//     conversation, and replaces it.
//   - A request that continues a side call shows that this was not a side call. It is stored whole.
//   - Any other request begins a fork.
func (svc *Service) apart(ctx context.Context, c ident.Caller, x *Exchange, places []place) (found, error) {
	i := slices.IndexFunc(places, func(p place) bool { return p.id == x.ask.Session })
	if i < 0 {
		return x.startFork(places), nil
	}
	p := &places[i]
	same := x.Delegation != "" || p.takes(x.ask.Kind)
	if same && x.question() && p.line.Len() > 0 && x.ask.resends() && !x.ask.Resend && x.ask.Previous == "" {
		f := found{place: *p, to: p.id, match: align.Match{Case: align.Delta, Keep: p.line.Len()}, keep: p.line.Len(),
			guessed: true, begins: true}
		x.goOnFrom(&f)
		f.shown.pending, f.shown.upto = f.pending, f.back
		return f, nil
	}
	if x.Delegation != "" || x.ask.Kind == "" {
		return x.startFork(places), nil
	}
	base, provisional := &places[0], places[0].provisional()
	if !same && provisional && (x.ask.Tools || svc.quotes(ctx, c.Tenant, x, base)) {
		return x.takeName(base), nil
	}
	if !same && x.aside() {
		return x.startSideCall(), nil
	}
	resumes, err := svc.resumesSideCall(ctx, c.Tenant, x)
	if err != nil {
		return found{}, err
	}
	if resumes && provisional {
		return x.takeName(base), nil
	}
	return x.startFork(places), nil
}

// startFork returns the result for a request that begins a fork.
func (x *Exchange) startFork(places []place) found {
	f := found{match: align.Match{Case: align.None}, to: x.freeFork(places)}
	f.place.id = f.to
	f.pending = x.said.cut(0, len(x.said.parsed))
	f.shown.pending = f.pending
	return f
}

// startSideCall returns the result for a side call. It is a turn of a session of its own.
func (x *Exchange) startSideCall() found {
	f := found{place: x.side, match: align.Match{Case: align.SideCall}, to: x.side.id}
	f.pending = x.said.cut(0, len(x.said.parsed))
	f.shown.pending, f.shown.upto = f.pending, new(uint32)
	return f
}

// takeName returns the result for a request that replaces the side call in a session.
func (x *Exchange) takeName(base *place) found {
	f := found{place: *base, match: align.Match{Case: align.New}, to: base.id, back: new(uint32), takes: true}
	f.pending = x.said.cut(0, len(x.said.parsed))
	f.shown.pending, f.shown.upto = f.pending, f.back
	return f
}

// provisional reports whether all that a place holds may be a side call.
func (p *place) provisional() bool {
	return p.head != nil && p.head.Sent != nil && p.head.Sent.Plain && len(p.all) == 1 && p.line.Len() > 0 &&
		p.line.turn[0] == p.line.lastTurn()
}

// quotedFrom is the length in bytes from which on a text that another one contains is quoted by it.
const quotedFrom = 8

// quotes reports whether the first messages of a place quote the request's only one.
func (svc *Service) quotes(ctx context.Context, tenant string, x *Exchange, p *place) bool {
	if !x.question() {
		return false
	}
	text := strings.TrimSpace(x.said.content(0).Text)
	if len(text) < quotedFrom {
		return false
	}
	stored := svc.stored(ctx, tenant, x, p, nil)
	for i := range min(p.line.Len(), maxAside) {
		if strings.Contains(stored.Content(i).Text, text) {
			return true
		}
	}
	return false
}

// maxSideMessages is how many of the newest messages of side calls a request is compared with. They hold 64 calls.
const maxSideMessages = 128

// resumesSideCall reports whether a request begins with the messages of a side call and has more after them.
func (svc *Service) resumesSideCall(ctx context.Context, tenant string, x *Exchange) (bool, error) {
	h := x.side.head
	if h == nil || h.Messages == 0 {
		return false, nil
	}
	hs, _, err := svc.sessions.ReadHeaders(ctx, tenant, h.Extent(), maxSideMessages, nil)
	if err != nil {
		return false, err
	}
	for len(hs) > 0 {
		n := slices.IndexFunc(hs, func(m transcript.Header) bool { return m.Turn != hs[0].Turn })
		if n < 0 {
			n = len(hs)
		}
		if n < len(x.said.hashes) && slices.EqualFunc(hs[:n], x.said.hashes[:n],
			func(m transcript.Header, said align.Hash) bool { return m.Said == said }) {
			return true, nil
		}
		hs = hs[n:]
	}
	return false, nil
}

// freeFork returns the id of a fork that does not exist yet.
func (x *Exchange) freeFork(places []place) string {
	n := max(x.forks.Last, x.taken)
	for i := range places {
		n = max(n, places[i].fork)
	}
	return ident.ForkOf(x.base, n+1)
}

// recent reports whether a fork is among the most recently used ones, so that its use need not be recorded again.
func (x *Exchange) recent(n int) bool {
	at := slices.Index(x.forks.Recent, n)
	return at >= 0 && at < session.MaxRecentForks/2
}
