package history

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/window/decision"
)

// side is one of the two message lists that are aligned. Results of the same call message may come in any order, so
// they are sorted.
type side struct {
	hashes  []align.Hash
	order   []int // the original index of each message
	role    func(i int) align.Role
	size    func(i int) int
	content func(i int) align.Content
	read    map[int]align.Content
}

func (s *side) Hashes() []align.Hash  { return s.hashes }
func (s *side) Role(i int) align.Role { return s.role(s.order[i]) }
func (s *side) Size(i int) int        { return s.size(s.order[i]) }

func (s *side) Content(i int) align.Content {
	c, ok := s.read[i]
	if !ok {
		c = s.content(s.order[i])
		c.Role = s.Role(i)
		s.read[i] = c
	}
	return c
}

// sortResults sorts adjacent results.
func (s *side) sortResults(hashes []align.Hash) {
	s.read = map[int]align.Content{}
	s.order = make([]int, len(hashes))
	for i := range s.order {
		s.order[i] = i
	}
	for i := 0; i < len(hashes); i++ {
		from := i
		for i < len(hashes) && s.role(i) == align.Result {
			i++
		}
		if i-from > 1 {
			slices.SortStableFunc(s.order[from:i], func(a, b int) int { return slices.Compare(hashes[a][:], hashes[b][:]) })
		}
	}
	s.hashes = make([]align.Hash, len(hashes))
	for i, at := range s.order {
		s.hashes[i] = hashes[at]
	}
}

// splits reports whether an index falls within a run of sorted results.
func (s *side) splits(at int) bool {
	return at > 0 && at < len(s.order) && s.role(at-1) == align.Result && s.role(at) == align.Result
}

// roleOf returns the author of a message.
func roleOf(role plan.Role, calls bool) align.Role {
	switch {
	case role == plan.RoleTool:
		return align.Result
	case role != plan.RoleAssistant:
		return align.User
	case calls:
		return align.Call
	}
	return align.Reply
}

// sizeOf returns the size class of a message's text; see align.Side.
func sizeOf(role align.Role, characters int) int {
	if role == align.Call || role == align.Result {
		return 64
	}
	return min(characters, 200)
}

func contentOf(m *chat.Message) align.Content {
	c := align.Content{Text: m.Text, Call: m.CallID}
	for i := range m.Calls {
		c.Call += m.Calls[i].ID + "\n"
		c.Text = strings.TrimSpace(c.Text + "\n" + m.Calls[i].Name + " " + m.Calls[i].Arguments)
	}
	return c
}

// content reads the content of a message.
func (s *saying) content(i int) align.Content {
	parsed, _, bad := chat.Parse(s.format, transcript.Elements(s.format, s.parsed[i].Raw))
	if len(bad) > 0 || len(parsed) != 1 {
		return align.Content{}
	}
	return contentOf(&parsed[0].Message)
}

func (s *saying) role(i int) align.Role { return roleOf(s.parsed[i].Role, s.parsed[i].calls) }

func (s *saying) side() *side {
	out := &side{role: s.role, content: s.content}
	out.size = func(i int) int { return sizeOf(s.role(i), utf8.RuneCountInString(s.content(i).Text)) }
	out.sortResults(s.hashes)
	return out
}

// storedLine is a line that includes the messages that the client has removed, followed by an open turn. It implements
// align.Line.
type storedLine struct {
	*side
	place *place
	all   line // including removed messages
	upto  int  // the number of messages of the line before the open turn
	// begins is the index with which the client's own history begins.
	begins int
	kind   string
}

// stored returns the line that a request is compared with.
func (svc *Service) stored(ctx context.Context, tenant string, x *Exchange, p *place, l *loop) *storedLine {
	s := &storedLine{place: p, all: p.whole, upto: p.whole.Len(), kind: x.ask.Kind}
	if x.Delegation != "" {
		s.kind = "" // Only the main agent's kind is known.
	}
	hashes := s.all.said
	var shown []int // of the open turn's messages, by index
	if l != nil {
		s.upto = p.whole.position(p.line, l.keep)
		for i := range l.said.parsed {
			if !l.said.parsed[i].Hidden {
				shown = append(shown, i)
			}
		}
		hashes = slices.Concat(hashes[:s.upto], l.shown)
	}
	s.side = &side{
		role: func(i int) align.Role {
			if i >= s.upto {
				return l.said.role(shown[i-s.upto])
			}
			return s.all.about[i].role
		},
		size: func(i int) int {
			if i >= s.upto {
				return sizeOf(l.said.role(shown[i-s.upto]), utf8.RuneCountInString(l.said.content(shown[i-s.upto]).Text))
			}
			return int(s.all.about[i].size)
		},
		content: func(i int) (c align.Content) {
			if i >= s.upto {
				return l.said.content(shown[i-s.upto])
			}
			seq := s.all.about[i].seq
			bodies, err := svc.sessions.ReadBodies(ctx, tenant, p.incarnation(), seq, seq)
			if err != nil {
				return c // Then it is not a version of any message, and nothing is lost.
			}
			if _, m, err := transcript.ParseBody(bodies[0]); err == nil {
				c = contentOf(m)
			}
			return c
		},
	}
	s.sortResults(hashes)
	if l != nil && l.begins {
		s.begins = s.upto
	} else if since := s.sent().Since; since > 0 && x.Delegation == "" {
		s.begins, _ = slices.BinarySearchFunc(s.all.about, since, func(a about, seq uint64) int { return cmp.Compare(a.seq, seq) })
	}
	return s
}

func (s *storedLine) Turn(i int) uint32 {
	if i >= s.upto {
		return s.all.lastTurn() + 1
	}
	return s.all.turn[i]
}

func (s *storedLine) Living(i int) bool { return i >= s.upto || s.lives(s.order[i]) }

// lives reports whether a message before the open turn has not been removed.
func (s *storedLine) lives(i int) bool { return !s.place.head.Removed.Message(s.all.about[i].seq) }

func (s *storedLine) sent() (none session.Sent) {
	if s.place.head == nil || s.place.head.Sent == nil {
		return none
	}
	return *s.place.head.Sent
}

func (s *storedLine) Edits(i int) int {
	if edits := s.sent().Edits; i < len(edits) {
		return int(edits[i])
	}
	return 0
}

func (s *storedLine) Edge() align.Edge { return s.sent().Edge }

func (s *storedLine) Same() bool { return s.place.takes(s.kind) }

// takes reports whether the line of a place may hold requests of a kind.
func (p *place) takes(kind string) bool {
	return kind == "" || p.head == nil || p.head.Sent == nil || p.head.Sent.Kind == "" || p.head.Sent.Kind == kind
}

// living returns the number of messages before an index that have not been removed.
func (s *storedLine) living(at int) (n int) {
	for i := range min(at, s.upto) {
		if s.lives(i) {
			n++
		}
	}
	return n
}

// compare compares a request with a place, or with an open turn there. It finds nothing if the request does not belong
// there.
func (svc *Service) compare(ctx context.Context, tenant string, x *Exchange, f *found) {
	at := pathOf(f.line, f.loop)
	common := commonPrefix(at, x.said.hashes)
	switch {
	case at.Len() == 0:
		f.match = align.Match{Case: align.New}
		return
	case common == at.Len():
		f.match = align.Match{Case: align.Extend, Keep: common, New: common}
		f.rankIs = -float64(common)
		return
	}
	line, request := svc.stored(ctx, tenant, x, &f.place, f.loop), x.said.side()
	a := align.CompareFrom(line, request, line.begins)
	f.match = align.Match{Case: align.None}
	if a == nil || request.splits(a.New) {
		return
	}
	if f.loop != nil && a.Keep < len(line.hashes) {
		return // The request continues from a message before the open turn.
	}
	f.rankIs, f.loss = a.Rank(), a.Loss
	f.aligned, f.stored, f.request = a, line, request
	f.match = align.Match{Case: a.Case, Keep: line.living(a.Keep), New: a.New, Front: len(a.Own)}
}

func commonPrefix(s align.Stored, request []align.Hash) int {
	n := min(s.Len(), len(request))
	for i := range n {
		if s.Message(i) != request[i] {
			return i
		}
	}
	return n
}

// editing describes what a request changes in the stored part of a line.
type editing struct {
	change  session.Change
	rewrite align.Pair // where the rest of the request replaces the stored messages; Stored < 0 means nowhere
	older   int        // the number of messages that the client regularly trims from the line
	// unresolved says that the request refers to unknown items, so that what it seems to leave out may be among them.
	unresolved bool
}

// editing determines what a request changes in a line: which turns and messages it removes or restores, and from where it
// replaces the line.
func (x *Exchange) editing(f *found, places []place) (e editing) {
	a, s := f.aligned, f.stored
	sent := s.sent()
	e.rewrite.Stored, e.unresolved = -1, x.unresolved
	if x.Delegation != "" || f.head == nil {
		return e // A sub-agent may not take back what other agents said.
	}
	trimmed := e.leaveOut(s, a, &sent, a.New < len(x.said.parsed))
	e.change.Edits = x.edited(f, places, trimmed, e.rewriteFrom)
	if at := e.rewrite.Stored; at >= 0 && trimmed > at {
		e.rewrite.Stored = -1 // The rewrite would lose the messages trimmed after it.
	}
	if at := e.rewrite.Stored; at >= 0 {
		e.change.Edits = slices.DeleteFunc(e.change.Edits, func(v *transcript.Edit) bool { return v.Seq >= s.all.about[at].seq })
		e.change.Remove = slices.DeleteFunc(e.change.Remove, func(r transcript.Run) bool { return r.Messages[1] >= s.all.about[at].seq })
	}
	e.restore(s, a)
	e.change.Sent = &sent
	return e
}

// edited returns the new versions of stored messages, outside a trimmed beginning. From messages that cannot be changed
// in place it rewrites the line: those that call tools, all if they are too many or too large, and all if the request
// refers to unknown items. Copies of them in forks change in the same commit, so all places share the limits.
func (x *Exchange) edited(f *found, places []place, trimmed int, rewrite func(align.Pair)) (out []*transcript.Edit) {
	s, size, first := f.stored, 0, align.Pair{Stored: -1}
	for _, c := range f.aligned.Changes {
		if c.Stored >= s.upto || !x.differs(s, f.request, c) || trimmed > c.Stored {
			continue
		}
		if first.Stored < 0 || c.Stored < first.Stored {
			first = c
		}
		q := f.request.order[c.Request]
		if s.Role(c.Stored) == align.Call || x.unresolved {
			rewrite(c)
			continue
		}
		size += len(x.said.parsed[q].Raw) + len(s.Content(c.Stored).Text)
		out = append(out, &transcript.Edit{Seq: s.all.about[s.order[c.Stored]].seq, Format: x.ask.Format,
			Elements: x.said.cut(q, q+1)})
	}
	copies := 0
	for i := range places {
		if places[i].head != nil {
			copies++
		}
	}
	copies = max(copies, 1)
	if len(out)*copies > transcript.MaxEdits || size*copies > transcript.MaxEditBytes {
		rewrite(first)
		return nil
	}
	return out
}

// rewriteFrom replaces the line from a message on, if it does not already from an earlier one.
func (e *editing) rewriteFrom(p align.Pair) {
	if e.rewrite.Stored < 0 || p.Stored < e.rewrite.Stored {
		e.rewrite = p
	}
}

// leaveOut determines which of the messages that a request leaves out are removed, and which were trimmed. It moves the
// edge of what the client sends. asks says that the request asks something new. It returns where the last trimmed run
// begins, or -1.
func (e *editing) leaveOut(s *storedLine, a *align.Aligned, sent *session.Sent, asks bool) (trimmed int) {
	moved := false
	trimmed = -1
	for _, run := range a.Missing {
		run.To = min(run.To, s.upto)
		if run.From == 0 && s.begins > 0 { // The client has never sent what is before its own history.
			e.older = min(run.To, s.begins)
			if run.From = e.older; run.From == run.To {
				continue
			}
		}
		begins, fresh := align.Begins(s, run.From), run
		if begins {
			fresh.From = max(run.From, sent.To)
		}
		if !begins || s.partial(run) && !align.Trims(s, run) { // Clients that trim leave out more.
			e.remove(s, a, fresh, e.rewriteFrom)
			continue
		}
		if run.To > sent.To {
			if align.Trims(s, run) {
				trimmed = run.From
			} else {
				before := len(e.change.Remove)
				e.remove(s, a, fresh, nil)
				sent.Marked = slices.Concat(sent.Marked, e.change.Remove[before:])
			}
			if !moved {
				sent.Moves++
			}
			if align.Habit(sent.Moves) {
				e.change.Restore, sent.Marked = slices.Concat(e.change.Restore, sent.Marked), nil
			}
		} else if asks && !align.Habit(sent.Moves) {
			sent.Moves = 0
		}
		sent.From, sent.To, moved = run.From, run.To, true
		if align.Habit(sent.Moves) {
			trimmed = run.From
		}
		if a.Case == align.Tail && trimmed >= 0 && run.From == 0 {
			e.older = run.To
		}
	}
	if !moved && a.Case != align.Rewind {
		sent.To = 0
	}
	return trimmed
}

// differs reports whether a change alters what was said. Clearing a tool result or dropping an image only saves space
// in the prompt, so it does not count.
func (x *Exchange) differs(s *storedLine, request *side, c align.Pair) bool {
	was, is := s.Content(c.Stored), request.Content(c.Request)
	if was.Role == align.Result && 2*len(is.Text) < len(was.Text) {
		return false
	}
	return was.Text != is.Text
}

// partial reports whether a run covers no turn completely. A line that now begins with something other than a question
// does not count, because clients that send their last messages trim like that.
func (s *storedLine) partial(run align.Run) bool {
	if run.From == 0 && run.To < s.upto && s.Role(run.To) != align.User {
		return false
	}
	for t := run.From; t < run.To; {
		from := t
		for t < run.To && s.all.turn[t] == s.all.turn[from] {
			t++
		}
		if (from == 0 || s.all.turn[from-1] != s.all.turn[from]) && (t >= s.upto || s.all.turn[t] != s.all.turn[from]) {
			return false
		}
	}
	return run.From < run.To
}

// remove marks the messages of a run as removed. If it covers part of a turn that cannot be removed separately, it rewrites
// the line from there. If rewrite is nil, the part stays.
func (e *editing) remove(s *storedLine, a *align.Aligned, run align.Run, rewrite func(align.Pair)) {
	for t := run.From; t < run.To; {
		turn, from, living := s.all.turn[t], t, false
		for ; t < run.To && s.all.turn[t] == turn; t++ {
			living = living || s.lives(t)
		}
		r := transcript.Run{Turns: [2]uint32{turn, turn}, Messages: [2]uint64{s.all.about[from].seq, s.all.about[t-1].seq}}
		n := len(e.change.Remove)
		switch whole := (from == 0 || s.all.turn[from-1] != turn) && (t == s.upto || s.all.turn[t] != turn); {
		case !living:
		case whole && n > 0 && joins(e.change.Remove[n-1], r):
			e.change.Remove[n-1].Turns[1], e.change.Remove[n-1].Messages[1] = turn, r.Messages[1]
		case whole:
			e.change.Remove = append(e.change.Remove, r)
		case !e.unresolved && s.separable(from, t) && len(s.place.head.Superseded)+n < session.MaxRemoved:
			e.change.Remove = append(e.change.Remove, transcript.Part(turn, r.Messages[0], r.Messages[1]))
		case rewrite != nil:
			rewrite(align.Pair{Stored: from, Request: requestAt(a, t)})
		}
	}
}

// separable reports whether the messages [from, to) of a turn can be removed or restored without its others: no others
// are stored between them, and calls are together with their results.
func (s *storedLine) separable(from, to int) bool {
	about := s.all.about
	return about[to-1].seq-about[from].seq == uint64(to-1-from) && about[from].role != align.Result &&
		(to == s.upto || s.all.turn[to] != s.all.turn[from] || about[to].role != align.Result)
}

func joins(a, b transcript.Run) bool {
	return !a.Partial() && a.Turns[1]+1 == b.Turns[0] && a.Messages[1]+1 == b.Messages[0]
}

// requestAt returns the index of the request's message with which the line continues after a stored index.
func requestAt(a *align.Aligned, stored int) int {
	at := a.New
	for _, list := range [][]align.Pair{a.Pairs, a.Changes} {
		for _, p := range list {
			if p.Stored >= stored {
				at = min(at, p.Request)
			}
		}
	}
	return at
}

// restore restores the removed turns and messages that the request sends again in their places.
func (e *editing) restore(s *storedLine, a *align.Aligned) {
	end := min(a.Keep, s.upto)
	if e.rewrite.Stored >= 0 {
		end = min(end, e.rewrite.Stored)
	}
	again := func(i int) bool {
		return i < end && !s.lives(i) && !slices.ContainsFunc(a.Missing, func(r align.Run) bool { return r.From <= i && i < r.To })
	}
	for t := 0; t < s.upto; {
		turn, begin := s.all.turn[t], t
		for t < s.upto && s.all.turn[t] == turn {
			from := t
			for t < s.upto && s.all.turn[t] == turn && again(t) {
				t++
			}
			if from == t {
				t++
				continue
			}
			r := transcript.Part(turn, s.all.about[from].seq, s.all.about[t-1].seq)
			if from == begin && (t == s.upto || s.all.turn[t] != turn) {
				r.Turns[0] = turn
			} else if !s.separable(from, t) {
				continue
			}
			e.change.Restore = append(e.change.Restore, r)
		}
	}
}

// arrange determines what an aligned request changes at its commit and which messages form its window.
func (x *Exchange) arrange(f *found, places []place) {
	a, s, end := f.aligned, f.stored, len(x.said.parsed)
	e := x.editing(f, places)
	keep, from := a.Keep, a.New
	if e.rewrite.Stored >= 0 {
		keep, from = e.rewrite.Stored, e.rewrite.Request
	}
	owns := x.owns(f)
	if f.loop != nil && keep >= s.upto {
		f.keep = f.loop.keep
		f.pending = slices.Concat(x.opened(f), x.without(owns, a.New, end, f))
	} else {
		living := s.living(keep)
		start := f.line.start(living)
		if start < living {
			from = min(from, requestAt(a, s.all.position(f.line, start)))
		}
		f.loop, f.keep = nil, start
		f.pending = x.without(owns, from, end, f)
	}
	if f.keep < f.line.Len() { // Turns are taken back whole, and stored again with the new versions.
		first := f.line.about[f.keep].seq
		e.change.Edits = slices.DeleteFunc(e.change.Edits, func(v *transcript.Edit) bool { return v.Seq >= first })
	}
	if len(e.change.Edits) > 0 {
		e.change.Sent.Edits = x.editsInPlace(f, e.change.Edits)
	}
	if at := e.rewrite.Stored; at >= 0 && e.change.Sent != nil {
		sent := e.change.Sent
		sent.Edits = x.edits(f, sent.Edits, owns, from)
		if sent.To = min(sent.To, at); sent.To <= sent.From { // what was missing after it is no longer stored
			sent.From, sent.To = 0, 0
		}
	}
	if f.keep < f.line.Len() {
		f.back = new(f.line.turn[f.keep] - 1)
	}
	e.change.Rewrites = e.rewrite.Stored >= 0
	f.differs = x.differences(f, &e, owns)
	e.change.Copies = x.copiesOf(f, &e, places)
	f.change = &e.change
	x.show(f, e.older)
}

// editsInPlace returns how often each of the first messages of a line was changed, after some have got new versions.
func (x *Exchange) editsInPlace(f *found, edits []*transcript.Edit) []uint8 {
	s, out := f.stored, slices.Clone(f.stored.sent().Edits)
	for _, c := range f.aligned.Changes {
		if c.Stored >= min(s.upto, align.OwnBefore) || !slices.ContainsFunc(edits, func(e *transcript.Edit) bool {
			return e.Seq == s.all.about[s.order[c.Stored]].seq
		}) {
			continue
		}
		for len(out) <= c.Stored {
			out = append(out, 0)
		}
		out[c.Stored] = uint8(min(int(out[c.Stored])+1, 255))
	}
	return out
}

// edits returns how often each of the first messages of a line was changed, after the request's messages from an index
// on have replaced those that the line no longer keeps. was is how often each had been changed before.
func (x *Exchange) edits(f *found, was []uint8, owns map[int]bool, from int) (out []uint8) {
	s := f.stored
	kept := s.all.position(f.line, f.keep)
	count := func(at int, n uint8) {
		for at < align.OwnBefore && len(out) <= at {
			out = append(out, 0)
		}
		if at < len(out) {
			out[at] = n
		}
	}
	for at, n := range was[:min(len(was), kept)] {
		count(at, n)
	}
	place := func(request int) int {
		at := kept
		for q := from; q < request; q++ {
			if !owns[q] {
				at++
			}
		}
		return at
	}
	for _, p := range f.aligned.Pairs {
		if q := f.request.order[p.Request]; q >= from {
			count(place(q), uint8(s.Edits(p.Stored)))
		}
	}
	for _, c := range f.aligned.Changes {
		q, n := f.request.order[c.Request], s.Edits(c.Stored)
		if x.differs(s, f.request, c) {
			n++
		}
		if q >= from {
			count(place(q), uint8(min(n, 255)))
		}
	}
	return out
}

// Differs counts how the request differs from the stored history. It returns nil if the request was not aligned with it.
func (x *Exchange) Differs() *decision.Differences { return x.first.differs }

// differences counts how a request differs from a line.
func (x *Exchange) differences(f *found, e *editing, owns map[int]bool) *decision.Differences {
	s, out := f.stored, &decision.Differences{Own: len(owns), Older: e.older}
	for _, c := range f.aligned.Changes {
		if x.differs(s, f.request, c) {
			out.Edited++
		}
	}
	for _, run := range f.aligned.Missing {
		for i := run.From; i < min(run.To, s.upto); i++ {
			if s.lives(i) && !e.removes(s, i) {
				out.Cut++
			} else if s.lives(i) {
				out.Removed++
			}
		}
	}
	return out
}

// removes reports whether a message of a line that the request leaves out does not live after the commit.
func (e *editing) removes(s *storedLine, i int) bool {
	seq := s.all.about[i].seq
	return e.rewrite.Stored >= 0 && i >= e.rewrite.Stored ||
		slices.ContainsFunc(e.change.Remove, func(r transcript.Run) bool { return r.Messages[0] <= seq && seq <= r.Messages[1] })
}

// owns returns the messages of a request that are not part of the conversation. Notes that a client moves around stay
// stored where they first appeared.
func (x *Exchange) owns(f *found) map[int]bool {
	out := map[int]bool{}
	for _, i := range f.aligned.Own {
		out[i] = true
	}
	for j := f.aligned.New; j < len(x.said.parsed)-1; j++ {
		if x.said.role(j) != align.User {
			continue
		}
		for i, h := range f.stored.all.said {
			if h == x.said.hashes[j] && !f.stored.lives(i) {
				out[j] = true
			}
		}
	}
	return out
}

// without returns the messages of a request in [from, to), except the client's own text. Messages that are already
// stored keep their time.
func (x *Exchange) without(owns map[int]bool, from, to int, f *found) (out []*transcript.Element) {
	said := x.said.marked()
	for _, p := range f.aligned.Pairs {
		if p.Request >= from && p.Stored < f.stored.upto {
			i := said.parsed[f.request.order[p.Request]].Index
			said.read[i] = said.read[i].Dated(time.UnixMilli(f.stored.all.about[f.stored.order[p.Stored]].created))
		}
	}
	for i := from; i < to; {
		if owns[i] {
			i++
			continue
		}
		end := i + 1
		for end < to && !owns[end] {
			end++
		}
		out = append(out, said.cut(i, end)...)
		i = end
	}
	return out
}

// opened returns the messages of the open turn that a request continues, in the client's newest versions.
func (x *Exchange) opened(f *found) (out []*transcript.Element) {
	l, versions := f.loop, map[int]int{}
	for _, c := range f.aligned.Changes {
		if c.Stored >= f.stored.upto && x.differs(f.stored, f.request, c) {
			versions[f.stored.order[c.Stored]-f.stored.upto] = f.request.order[c.Request]
		}
	}
	shown, from := 0, 0
	for i := range l.said.parsed {
		if l.said.parsed[i].Hidden {
			continue
		}
		if q, ok := versions[shown]; ok {
			out = slices.Concat(out, l.said.cut(from, i), x.said.cut(q, q+1))
			from = i + 1
		}
		shown++
	}
	return append(out, l.said.cut(from, len(l.said.parsed))...)
}

// show makes the window from the request's own messages. Of the stored turns it includes only those with which the
// request begins, and older ones if the client regularly trims its history.
func (x *Exchange) show(f *found, older int) {
	end := len(x.said.parsed)
	start := f.line.start(commonPrefix(f.line, x.said.hashes))
	turns := start
	if older > 0 {
		start, turns = 0, f.line.start(f.stored.living(older))
	}
	if turns < f.line.Len() {
		f.shown.upto = new(uint32)
		if turns > 0 {
			*f.shown.upto = f.line.turn[turns-1]
		}
	}
	if l := f.loop; l != nil && l.holds() {
		at := min(requestAt(f.aligned, f.stored.upto), f.aligned.New)
		f.shown.pending = slices.Concat(x.said.cut(min(start, at), at), x.opened(f), x.said.cut(f.aligned.New, end))
		return
	}
	said := x.said.marked()
	for _, p := range f.aligned.Pairs {
		if f.loop == nil || p.Stored < f.stored.upto || p.Request < start {
			continue
		}
		// No message is hidden, so every message of the open turn is shown.
		if m := &f.loop.said.parsed[f.stored.order[p.Stored]-f.stored.upto]; m.Decision != "" {
			i := said.parsed[f.request.order[p.Request]].Index
			said.read[i] = said.read[i].Decided(m.Decision)
		}
	}
	f.shown.pending = said.cut(start, end)
}
