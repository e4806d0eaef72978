package history

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// found says where a request was found, and what its commit will do.
type found struct {
	place
	match align.Match
	loop  *loop // that the request continues, or nil
	keep  int   // the number of messages of the line to keep
	// back is the turn after which the commit takes turns back, or nil for none. If copies is set, the turns stay and the
	// exchange goes to a copy of the session.
	back    *uint32
	copies  bool
	to      string // the session that stores the exchange; empty if there is none
	guessed bool   // the request continues the line because it asks a single question that matches nothing
	begins  bool   // the client's own history begins with what the commit stores
	takes   bool   // the commit replaces a side call that took the session's name
	pending []*transcript.Element
	// shown is what the window is made of: the stored turns up to a turn (all if nil), and the messages after them.
	shown struct {
		upto    *uint32
		pending []*transcript.Element
	}

	// set if the request had to be aligned with the stored messages, because it does not simply extend them
	aligned *align.Aligned
	stored  *storedLine
	request *side
	change  *session.Change // other changes of the commit, or nil
	differs *decision.Differences
	rankIs  float64 // lower values fit better
	loss    int
}

// place is a session that a request may belong to.
type place struct {
	id    string
	fork  int           // 0 for the session itself
	head  *session.Head // nil if it does not exist yet
	line  line          // of the request's agent
	whole line          // including the messages that the client has removed
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

// whole reports whether a request contains everything the session holds and continues from there.
func (f *found) whole() bool {
	switch f.match.Case {
	case align.New, align.None, align.Rewind, align.Diverge:
		return false
	}
	return f.match.Keep > 0
}

// base returns the hash of the chain that the pending messages follow.
func (f *found) base() align.Hash { return f.line.chained(f.keep) }

// places reads the requested session and the forks of it that were used last, with their chains. It reads the head of
// its side calls, too.
func (svc *Service) places(ctx context.Context, c ident.Caller, projectID string, x *Exchange) ([]place, error) {
	_, asked := ident.Forked(x.ask.Session)
	numbers := []int{0, ident.Side}
	for n := range session.MaxRecentForks {
		numbers = append(numbers, n+1)
	}
	if asked > session.MaxRecentForks {
		numbers = append(numbers, asked)
	}
	out, err := svc.heads(ctx, c, projectID, x, numbers)
	if err != nil {
		return nil, err
	}
	x.side = out[1]
	out = slices.Delete(out, 1, 2)
	if base := out[0].head; base != nil && base.Forks != nil {
		x.forks = base.Forks
		if out, err = svc.recentForks(ctx, c, projectID, x, out, asked); err != nil {
			return nil, err
		}
	} else { // Forks made before sessions recorded them have the first numbers.
		out = slices.DeleteFunc(out, func(p place) bool { return p.fork > 0 && p.fork != asked && p.head == nil })
		x.forks = new(session.Forks)
		for i := len(out) - 1; i > 0; i-- {
			if out[i].head != nil {
				x.forks = x.forks.With(out[i].fork)
			}
		}
	}
	for i := range out {
		at := &out[i]
		all, err := svc.lines(ctx, c.Tenant, at.head)
		if err != nil {
			return nil, err
		}
		at.all, at.line, at.whole = all.living, all.living[x.Delegation], all.whole[x.Delegation]
	}
	return out, nil
}

// recentForks returns the requested session and the forks that a request is compared with. It reads those whose heads
// are not among the places already.
func (svc *Service) recentForks(ctx context.Context, c ident.Caller, projectID string, x *Exchange, read []place,
	asked int) ([]place, error) {
	numbers := x.forks.Recent
	if asked > 0 && !slices.Contains(numbers, asked) {
		numbers = append(slices.Clip(numbers), asked)
	}
	out := read[:1:1]
	var more []int
	for _, n := range numbers {
		if i := slices.IndexFunc(read, func(p place) bool { return p.fork == n }); i < 0 {
			more = append(more, n)
		} else if read[i].head != nil || n == asked {
			out = append(out, read[i])
		}
	}
	if more == nil {
		return out, nil
	}
	rest, err := svc.heads(ctx, c, projectID, x, more)
	for i := range rest {
		if rest[i].head != nil || rest[i].fork == asked {
			out = append(out, rest[i])
		}
	}
	return out, err
}

// heads reads the heads of a session and its forks, by their numbers.
func (svc *Service) heads(ctx context.Context, c ident.Caller, projectID string, x *Exchange, numbers []int) (
	[]place, error) {
	out := make([]place, len(numbers))
	for i, n := range numbers {
		out[i] = place{id: x.base, fork: n}
		if n != 0 {
			out[i].id = ident.ForkOf(x.base, n)
		}
	}
	p, items, _, err := svc.projects.Read(ctx, c.Unconfined(), projectID, func(pinc ident.Incarnation) (keys [][]byte) {
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
		if out[i].head, err = svc.sessions.KnownHead(c.Tenant, p, out[i].id, items[i]); err == nil {
			err = out[i].head.CheckReach(c, out[i].id)
		}
		if err == nil && out[i].fork == 0 {
			err = svc.namespaceOf(c, x, out[i].head)
		}
		if fault.IsNotFound(err) && x.ask.Previous != "" {
			err = errUnknown(x.ask.Previous)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// namespaceOf sets the request's namespace: the one it names, otherwise the session's, otherwise the project's default. New
// sessions and forks are created in it. base is the session's head, or nil.
func (svc *Service) namespaceOf(c ident.Caller, x *Exchange, base *session.Head) error {
	x.Namespace = x.ask.Namespace
	if x.Namespace != nil {
		return nil
	}
	set, err := svc.projects.SetupOf(x.Project)
	if err != nil {
		return err
	}
	x.Namespace, err = base.NamespaceFor(&set.Settings, c, x.base, x.ask.Agent)
	if base == nil || base.Turns == 0 || len(base.Namespace) > 0 {
		x.ask.Namespace = x.Namespace
	}
	return err
}

// find matches a request against the places as they are.
func (svc *Service) find(ctx context.Context, c ident.Caller, x *Exchange, places []place) (found, error) {
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
		return svc.apart(ctx, c, x, places)
	}
	f := slices.MinFunc(all, func(a, b found) int {
		if x.ask.resends() {
			return cmp.Or(cmp.Compare(a.rankIs, b.rankIs), cmp.Compare(a.loss, b.loss), x.better(&a, &b))
		}
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), x.better(&a, &b))
	})
	x.settle(&f, places, ls)
	return f, nil
}

// loops returns the open turns of a place that a request may continue; nil stands for the stored history.
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

// alone returns the open turn that a delta request continues, or nil.
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

// repeats reports whether the newest turn, which begins at start, was made by the same request, sent after an open
// turn. Its messages must be the same and, if the body of the turn's request is still known, the bodies too.
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

// foundAt matches a request against one place, or against an open turn there.
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
		f.match = align.Match{Case: align.None} // The request continues from a message before the open turn, or from elsewhere.
	}
	return f
}

// compacted corrects the match for clients that write summaries themselves: these are neither edits nor other
// conversations.
func (x *Exchange) compacted(f *found, s align.Stored) {
	edits := f.match.Case == align.Diverge
	if !x.ask.Compacts || f.match.Case != align.None && !(edits && x.ask.Compacted) {
		return
	}
	newest := f.line.lastStart()
	if f.loop != nil { // Nothing after its beginning is a turn yet.
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

// rank orders the possible matches of a request. Lower is better.
func (f *found) rank() int {
	return slices.Index([]align.Case{align.Extend, align.Rewind, align.Tail, align.Delta, align.Diverge, align.New},
		f.match.Case)
}

// better compares two places that match a request in the same way. It prefers the longer match, then the requested
// place, then, if a message was edited, the place that was used last.
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

// settle determines what a match means for the commit: what is pending, and which turns it takes back. Turns are taken
// back whole, and the part to keep is stored again.
func (x *Exchange) settle(f *found, places []place, ls *loops) {
	f.to = f.id
	f.begins = f.loop != nil && f.loop.begins
	if f.aligned != nil {
		x.arrange(f, places)
	} else {
		x.goOnFrom(f)
		f.shown.pending, f.shown.upto = f.pending, f.back
	}
	if f.back == nil || !x.spares(f, ls) {
		return
	}
	f.change, f.begins = nil, false
	f.to = x.freeFork(places)
	if f.keep > 0 {
		f.copies = true
	} else { // Nothing is stored before it.
		f.place, f.back = place{id: f.to}, nil
	}
}

// goOnFrom determines what is pending after the stored messages that a request begins or ends with.
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

// spares reports whether turns that would be taken back must stay. A sub-agent takes back no turns of others, and a
// request with unknown references may mean what it seems to replace. An open turn takes back no turns that came after it began, unless the same request made them.
func (x *Exchange) spares(f *found, ls *loops) bool {
	if x.Delegation != "" && f.others(x.Delegation, *f.back) {
		return true
	}
	if x.unresolved && f.match.Case != align.Rewind {
		return true
	}
	if f.loop == nil || f.line.lastTurn() <= f.loop.given {
		return false
	}
	return f.line.lastStart() != f.keep || !x.repeats(&f.place, f.keep, f.loop, ls)
}

// others reports whether other agents have turns after the given one.
func (p *place) others(agent string, turn uint32) bool {
	for other, l := range p.all {
		if other != agent && l.lastTurn() > turn {
			return true
		}
	}
	return false
}
