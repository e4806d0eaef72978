package history

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
)

// found is where a request was found, and what follows for its commit.
type found struct {
	place
	match align.Match
	loop  *loop // that the request goes on from; nil: none
	keep  int   // how many messages of the line stay
	// back is the turn behind which turns are taken back with the commit; nil: none is. copies says that they stay where
	// they are, and that the exchange goes to a copy of the session instead.
	back    *uint32
	copies  bool
	to      string // the session that the exchange is stored in; empty: there is none
	pending []*transcript.Element
	// shown is what the window is made of: the stored turns up to one, nil: all of them, and messages behind them.
	shown struct {
		upto    *uint32
		pending []*transcript.Element
	}

	// A request that is not just longer than what is stored was aligned with it.
	aligned *align.Aligned
	stored  *storedLine
	request *side
	change  *session.Change // what the commit does besides; nil: nothing
	rankIs  float64         // the lower, the better the request fits the place
	loss    int
}

// place is a session that a request may belong to.
type place struct {
	id    string
	fork  int           // 0: the session itself
	head  *session.Head // nil: it is yet to be made
	line  line          // of the request's agent
	whole line          // with the messages that the client has removed
	all   map[string]line
}

func (p *place) incarnation() (none ident.Incarnation) {
	if p.head == nil {
		return none
	}
	return p.head.Incarnation
}

func (p *place) revision() uint64 {
	if p.head == nil {
		return 0
	}
	return p.head.Revision
}

// whole reports whether a request brings what the session holds, and goes on from there.
func (f *found) whole() bool {
	switch f.match.Case {
	case align.New, align.None, align.Rewind, align.Diverge:
		return false
	}
	return f.match.Keep > 0
}

// base is the hash of the chain that the pending messages stand behind.
func (f *found) base() align.Hash { return f.line.chained(f.keep) }

// places reads the session that was asked for and its forks, with their chains.
func (svc *Service) places(ctx context.Context, c ident.Caller, projectID string, x *Exchange) ([]place, error) {
	out := make([]place, ident.MaxForks+1)
	for n := range out {
		out[n] = (place{id: x.base, fork: n})
		if n > 0 {
			out[n].id = ident.ForkOf(x.base, n)
		}
	}
	p, items, _, err := svc.projects.Read(ctx, c, projectID, func(pinc ident.Incarnation) (keys [][]byte) {
		for i := range out {
			keys = append(keys, records.Session.Key(pinc, out[i].id))
		}
		return keys
	})
	if err != nil {
		return nil, err
	}
	x.Project = p
	for i := range out {
		at := &out[i]
		if at.head, err = svc.sessions.KnownHead(c.Tenant, p, at.id, items[i]); err != nil {
			return nil, err
		}
		all, err := svc.lines(ctx, c.Tenant, at.head)
		if err != nil {
			return nil, err
		}
		at.all, at.line, at.whole = all.living, all.living[x.Delegation], all.whole[x.Delegation]
	}
	return out, nil
}

// find holds a request against the places as they are.
func (svc *Service) find(ctx context.Context, c ident.Caller, x *Exchange, places []place) found {
	ls := svc.openTurns(c, x)
	var all []found
	for i := range places {
		p := &places[i]
		if x.ask.Delta && p.id != x.ask.Session {
			continue
		}
		for _, l := range p.loops(ls, x) {
			f := svc.foundAt(ctx, c.Tenant, x, *p, l)
			elsewhere := f.match.Case == align.New && p.fork > 0 && p.id != x.ask.Session
			if f.match.Case != align.None && !elsewhere {
				all = append(all, f)
			}
		}
	}
	if len(all) == 0 {
		return x.apart(places)
	}
	f := slices.MinFunc(all, func(a, b found) int {
		if x.ask.resends() {
			return cmp.Or(cmp.Compare(a.rankIs, b.rankIs), cmp.Compare(a.loss, b.loss), x.better(&a, &b))
		}
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), x.better(&a, &b))
	})
	x.settle(&f, places, ls)
	return f
}

// loops gives the open turns of a place that a request may go on from; nil stands for what is stored.
func (p *place) loops(ls *loops, x *Exchange) (out []*loop) {
	if x.ask.Delta {
		return x.alone(p)
	}
	if p.head != nil || p.fork == 0 {
		out = append(out, nil)
	}
	for _, l := range ls.open {
		if l.session == p.id && l.agent == x.Delegation && l.behind(p) {
			out = append(out, l)
		}
	}
	return out
}

// alone gives the one open turn that a request goes on from which sends what is new alone.
func (x *Exchange) alone(p *place) []*loop {
	l := x.resumed
	switch {
	case l != nil && l.session == p.id && l.behind(p):
		return []*loop{l}
	case l != nil && x.ask.Previous != "":
		return nil
	}
	return []*loop{nil}
}

// repeats tells whether the newest turn, which begins at a place, was made by the same request, behind an open turn, as
// far as one can know: its body is the same and, because nobody may know that any more, its messages.
func (x *Exchange) repeats(p *place, start int, l *loop, ls *loops) bool {
	said := x.said.hashes
	if l != nil {
		said = slices.Concat(l.shown, said)
	}
	if end := start + len(said); len(said) == 0 || end > p.line.Len() || !slices.Equal(p.line.said[start:end], said) {
		return false
	}
	made, known := ls.body(p.id, p.line.lastTurn())
	return !known || made == x.ask.body()
}

// apart is a request that belongs to none of the places: it begins a fork. Where there are too many, it has no place.
func (x *Exchange) apart(places []place) found {
	f := found{match: align.Match{Case: align.None}, to: freeFork(places)}
	f.place.id = f.to
	if f.to == "" {
		f.place.id = x.ask.Session
	}
	f.pending = x.said.cut(0, len(x.said.parsed))
	f.shown.pending = f.pending
	return f
}

// freeFork is the id of the first fork that is yet to be made; empty: there are too many.
func freeFork(places []place) string {
	for i := range places {
		if places[i].fork > 0 && places[i].head == nil {
			return places[i].id
		}
	}
	return ""
}

// foundAt holds a request against one place, or against an open turn there.
func (svc *Service) foundAt(ctx context.Context, tenant string, x *Exchange, p place, l *loop) found {
	at := pathOf(p.line, l)
	f := found{place: p, loop: l}
	if x.ask.resends() {
		svc.compare(ctx, tenant, x, &f)
		if l == nil {
			f.keep = f.match.Keep
		} else {
			f.keep = l.keep
			if f.aligned == nil && f.match.Case != align.Extend {
				f.match = align.Match{Case: align.None}
			}
		}
		return f
	}
	f.match = align.Find(at, x.said.hashes, x.said.assistant)
	x.compacted(&f, at)
	whole := f.match.Case == align.Extend || f.match.Case == align.Tail
	if x.ask.Delta && (!whole || f.match.Keep == 0) {
		f.match = align.Match{Case: align.Delta, Keep: at.Len()}
	}
	if l == nil {
		f.keep = f.match.Keep
		return f
	}
	f.keep = l.keep
	if !whole && f.match.Case != align.Delta {
		f.match = align.Match{Case: align.None} // The request goes on from before the open turn, or from elsewhere.
	}
	return f
}

// compacted corrects what a request is whose client makes summaries by itself: they are no edits, and no other
// conversations.
func (x *Exchange) compacted(f *found, s align.Stored) {
	edits := f.match.Case == align.Diverge
	if !x.ask.Compacts || f.match.Case != align.None && !(edits && x.ask.Compacted) {
		return
	}
	newest := f.line.lastStart()
	if f.loop != nil { // Nothing behind its beginning is a turn yet.
		newest = s.Len()
	}
	m := align.FindCompacted(s, newest, x.said.hashes, x.said.assistant, x.ask.Compacted)
	if m.Case == align.None {
		return
	}
	f.match = m
	if x.ask.Windowed {
		f.match = align.Match{Case: align.None}
	}
}

// rank orders what a request may be: the lower, the better.
func (f *found) rank() int {
	return slices.Index([]align.Case{align.Extend, align.Rewind, align.Tail, align.Delta, align.Diverge, align.New},
		f.match.Case)
}

// better compares two places that a request fits in the same way. The longer match comes first, then the place that was
// asked for, then, where a message was edited, the place that was used last.
func (x *Exchange) better(a, b *found) int {
	asked := func(f *found) int {
		if f.id == x.ask.Session {
			return 0
		}
		return 1
	}
	used := func(f *found) int64 {
		if f.head == nil || f.match.Case == align.Extend {
			return 0
		}
		return f.head.LastActivity.UnixMilli()
	}
	return cmp.Or(cmp.Compare(b.match.Keep, a.match.Keep), cmp.Compare(asked(a), asked(b)), cmp.Compare(used(b), used(a)),
		cmp.Compare(a.fork, b.fork))
}

// settle works out what a match means for the commit: what is pending, and which turns it takes back. Turns are taken
// back whole, and what is kept of one is stored again.
func (x *Exchange) settle(f *found, places []place, ls *loops) {
	f.to = f.id
	if f.aligned != nil {
		x.arrange(f)
	} else {
		x.goOnFrom(f)
		f.shown.pending, f.shown.upto = f.pending, f.back
	}
	if f.back == nil || !x.spares(f, ls) {
		return
	}
	f.change = nil
	f.to = freeFork(places)
	if f.keep > 0 {
		f.copies = true
	} else { // Nothing is stored before it.
		f.place, f.back = place{id: f.to}, nil
	}
}

// goOnFrom works out what is pending behind the stored messages that a request begins or ends with.
func (x *Exchange) goOnFrom(f *found) {
	start, from := f.line.start(f.keep), f.match.New
	if f.loop == nil {
		from -= f.keep - start
	}
	f.keep = start
	end := len(x.said.parsed)
	switch {
	case f.loop == nil:
		f.pending = x.said.cut(from, end)
	case f.match.Case == align.Extend:
		f.pending = f.loop.again(x.said)
	default:
		f.pending = slices.Concat(f.loop.said.cut(0, len(f.loop.said.parsed)), x.said.cut(from, end))
	}
	if start < f.line.Len() {
		f.back = new(f.line.turn[start] - 1)
	}
}

// spares tells whether what would be taken back has to stay: a sub-agent takes back no turns of others, and an open turn
// none that came after it began, unless the same request made it.
func (x *Exchange) spares(f *found, ls *loops) bool {
	if x.Delegation != "" && f.others(x.Delegation, *f.back) {
		return true
	}
	if f.loop == nil || f.line.lastTurn() <= f.loop.given {
		return false
	}
	return f.line.lastStart() != f.keep || !x.repeats(&f.place, f.keep, f.loop, ls)
}

// others tells whether other agents have turns behind one.
func (p *place) others(agent string, turn uint32) bool {
	for other, l := range p.all {
		if other != agent && l.lastTurn() > turn {
			return true
		}
	}
	return false
}
