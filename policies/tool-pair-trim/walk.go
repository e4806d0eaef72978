package toolpairtrim

import (
	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// walk determines where a window begins. Providers charge less and answer faster for a prefix that a prompt shares with
// the previous prompt, so a cut must not move with each message. But policies are stateless and do not know where they
// cut last. So walk re-runs the session: it takes the table's atoms one by one, as if each had just become the newest.
// Whenever the window exceeds its limit, the cut moves until only a share of that limit is left. The table begins at
// the same message for many turns, so each walk finds the same cuts as the one before.
//
// The walk visits each record a bounded number of times, however often the cut moves.
type walk struct {
	rules
	start
	window   cost   // cost of everything in the window and beside it
	kept     cost   // part of window: what stays regardless of what is newest
	newest   cost   // part of window: the newest atom and the newest user message, which stay while they are the newest
	newestAt int    // the newest atom that a cut may pass later; -1 if there is none yet
	last     uint32 // the newest turn's number
	turn     uint32 // the number of the head, which is the turn that the window begins with; 0 if unknown
	head     cost   // part of window: what a cut may remove from the head
	question cost   // cost of the atom at start.question, as the window shows it
	beyond   uint32 // turns up to this place are beyond the depth
	posted   cost   // cost of the newest turn, as posted
	tools    bool   // the newest turn has a tool result
	thinks   bool   // the newest turn has thinking
	limit    cost   // what a cut leaves at most
	cut      bool   // something was left out before
	ring     ring
}

type cost = cut.Cost

// rules are the rules of a walk.
type rules struct {
	records mneme.Records
	budget  cost    // 0 means no bound
	share   float64 // the share of budget that a cut leaves
	low     cost    // that share of budget
	half    cost    // half of budget
	beside  uint64  // tokens in the window in addition to the records that are counted
	notices bool    // system-class records count, each from its position on
	older   bool    // there are messages older than the table
	depth   cut.Depth
	reserve cost   // the most that may be kept free for a new turn; 0 for nothing
	long    uint64 // a kept question with more tokens is cut; 0 means never
	short   uint64 // its tokens after the cut
}

// start is where a window begins. Everything before from is left out, except fixed atoms and the one at question.
// Earlier questions from a previous step are left out if they are before asked.
type start struct {
	from     int
	asked    int
	question int    // the question of the turn that is cut inside; -1 if there is none
	takes    cost   // the cost of that question
	userAt   int    // the newest user message; -1 if there is none
	deep     int    // everything before this record is beyond the depth
	inside   uint32 // the number of the turn at from
	total    cost   // the cost of the window
	why      excess // what the window exceeded when a budget last moved the cut
}

// excess says how much a window would have cost, and which limit it exceeded.
type excess struct {
	window  cost // 0 if no budget moved the cut
	reserve cost // for the turn that began; 0 if the window exceeded its budget
	like    int  // the turns that determined the reserve
}

// stays reports whether the atom that begins at first is in the window.
func (s *start) stays(first int, a cut.Atom) bool {
	switch {
	case a.Facts.Fixed():
		return true
	case a.Facts.Question():
		return first >= s.asked
	}
	return first >= s.from || first == s.question
}

// run walks over the table, given the place of its newest turn.
//
//go:noinline
func (r *rules) run(newestPlace uint32) start {
	w := walk{rules: *r}
	w.low, w.half = r.budget.Part(r.share), r.budget.Part(.5)
	w.start.question, w.userAt, w.newestAt = -1, -1, -1
	w.window.Tokens, w.kept.Tokens = r.beside, r.beside
	for i := 0; i < w.records.Len(); {
		a := cut.At(w.records, i)
		w.arrive(i, a)
		i = a.End
	}
	w.deepen(newestPlace, w.records.Len())
	w.total, w.takes = w.window, w.question
	if w.from < w.records.Len() {
		w.inside = w.records.At(w.from).Turn
	}
	return w.start
}

// arrive makes the next atom the newest.
func (w *walk) arrive(first int, a cut.Atom) {
	if a.Facts.System() {
		if !w.notices {
			return
		}
		w.window.Tokens += a.Tokens
		w.kept.Tokens += a.Tokens
	} else {
		begins := a.Turn != w.last
		if begins {
			w.begin(first, a)
		}
		c := a.Cost(first)
		w.window, w.posted = w.window.Plus(c), w.posted.Plus(c)
		w.tools = w.tools || a.Facts.Has(mneme.Tool)
		w.thinks = w.thinks || a.Facts&cut.Facts(mneme.Thinking) != 0
		if a.Facts.Pinned() {
			w.kept = w.kept.Plus(c)
		} else {
			w.newestAt = first
			if asks(a) {
				w.ask(first)
			}
		}
		if a.Turn == w.turn && !a.Facts.Fixed() {
			w.head = w.head.Plus(c)
		}
		if begins && asks(a) && w.early(first, a.End) {
			return
		}
	}
	if !w.budget.Holds(w.window) {
		w.why, w.limit = excess{window: w.window}, w.budget
		w.shorten(first, a.End, w.budget)
	}
}

// asks reports whether the atom is a full user message.
func asks(a cut.Atom) bool { return a.Facts.Has(mneme.User) && !a.Facts.Question() }

// begin ends the newest turn and begins the turn of the atom at first.
//
//go:noinline
func (w *walk) begin(first int, a cut.Atom) {
	if w.tools {
		w.ring.push(w.posted, w.thinks)
	}
	w.posted, w.tools, w.thinks, w.last = cost{}, false, false, a.Turn
	w.deepen(w.records.At(first).Place, first)
}

// ask makes the user message at first the newest. From now on the previous one may be cut.
func (w *walk) ask(first int) {
	before := w.userAt
	w.userAt = first
	if before >= 0 && before == w.start.question {
		c := w.asKept(before, cut.At(w.records, before))
		w.window = w.window.Minus(w.question).Plus(c)
		w.question = c
	}
}

// asKept returns the cost of a question that is kept from a turn that is cut inside.
func (w *walk) asKept(first int, a cut.Atom) cost {
	c := a.Cost(first)
	if first != w.userAt && w.pasted(a) {
		c.Tokens = w.short + messageTokens
	}
	return c
}

// pasted reports whether a question is too long to be kept whole.
func (r *rules) pasted(a cut.Atom) bool {
	const media = mneme.Image | mneme.Audio | mneme.Document
	return r.long > 0 && a.Tokens > max(r.long, r.short+messageTokens) && a.Facts&cut.Facts(media) == 0
}

// deepen removes all turns that are beyond the depth, given the place of the newest turn.
//
//go:noinline
func (w *walk) deepen(newest uint32, end int) {
	beyond := w.depth.Beyond(newest)
	if beyond <= w.beyond {
		return
	}
	w.beyond = beyond
	if q := w.start.question; q >= 0 && w.records.At(q).Place <= beyond {
		w.keepQuestion(-1, cost{})
	}
	for w.from < end {
		a := cut.At(w.records, w.from)
		if !a.Facts.System() && w.records.At(w.from).Place > beyond {
			return
		}
		if a.Facts.Plain() {
			w.window = w.window.Minus(a.Cost(w.from))
			w.cut = true
		}
		w.from = a.End
		w.deep, w.turn, w.head = w.from, 0, cost{}
	}
}

// early cuts if there would be no room for the turn that has begun, provided that something was left out before. It
// reports whether it cut.
func (w *walk) early(first, end int) bool {
	if w.reserve == (cost{}) || w.ring.pushed == 0 || !w.cut && !w.older {
		return false
	}
	largest := w.ring.largest()
	reserve := cost{Messages: min(largest.Messages, w.reserve.Messages), Tokens: min(largest.Tokens, w.reserve.Tokens)}
	limit := w.budget
	if w.ring.thinks() && w.budget.Holds(w.kept.Plus(largest)) { // a cut inside such a loop would cost its thinking
		reserve = largest
		limit = w.budget.Less(largest)
	}
	bound := w.budget.Less(reserve)
	if bound.Holds(w.window) {
		return false
	}
	w.why, w.limit = excess{window: w.window}, limit
	if w.budget.Holds(w.window) {
		w.why.reserve, w.why.like = reserve, w.ring.len()
	}
	w.shorten(first, end, bound)
	return true
}

// shorten leaves out the oldest messages if the newest atom has made the window exceed the bound.
//
//go:noinline
func (w *walk) shorten(newest, end int, bound cost) {
	w.cut, w.newest = true, cost{}
	if w.newestAt >= 0 {
		a := cut.At(w.records, w.newestAt)
		w.newest = a.Cost(w.newestAt)
		if w.userAt >= 0 && !asks(a) {
			user := cut.At(w.records, w.userAt)
			w.newest = w.newest.Plus(user.Cost(w.userAt))
		}
	}
	if w.leaveDepth(end, bound) {
		return
	}
	for w.asked < w.from { // earlier questions of turns beyond the depth
		if w.enough() {
			return
		}
		a := cut.At(w.records, w.asked)
		if a.Facts.Question() && !a.Facts.Fixed() {
			w.window.Tokens -= a.Tokens
		}
		w.asked = a.End
	}
	w.move(newest, end)
	w.asked = w.from
}

// manyMessages is the share of the message budget up to which a cut keeps as many turns as the depth.
const manyMessages = .8

// leaveDepth keeps exactly as many of the newest turns as the depth says, provided that they take few of the messages
// and no more tokens than a cut leaves. It reports whether it did.
func (w *walk) leaveDepth(end int, bound cost) bool {
	if w.share >= 1 {
		return false
	}
	newest, at, took := w.places(end), end, cost{}
	most := cost{Messages: w.budget.Part(manyMessages).Messages, Tokens: w.low.Tokens}
	for ; at > w.from; at-- {
		r := w.records.At(at - 1)
		if r.Role == mneme.System {
			continue
		}
		if int64(newest)-int64(r.Place) >= max(w.depth.Turns, 1) {
			break
		}
		took.Tokens += uint64(r.Tokens)
		if !r.Flags.Has(mneme.Compressed) {
			took.Messages++
		}
		if !most.Holds(took) {
			return false
		}
	}
	if at == w.from {
		return false
	}
	left := w.window.Minus(w.question)
	for i := w.asked; i < at; {
		a := cut.At(w.records, i)
		if !a.Facts.Fixed() && (a.Facts.Question() || i >= w.from) {
			left = left.Minus(a.Cost(i))
		}
		i = a.End
	}
	if !bound.Holds(left) {
		return false
	}
	w.window, w.start.question, w.question = left, -1, cost{}
	w.from, w.asked, w.turn, w.head = at, at, 0, cost{}
	return true
}

// places returns the place of the newest turn before end.
func (w *walk) places(end int) uint32 {
	for i := end - 1; i >= 0; i-- {
		if r := w.records.At(i); r.Role != mneme.System {
			return r.Place
		}
	}
	return 0
}

// move leaves out the oldest messages until the share is left: turn by turn, and atom by atom in a turn that takes more
// than half of the budget. The turn of the newest atom stays whole if it fits.
func (w *walk) move(newest, end int) {
	begun, inside := false, false
	for w.from < newest {
		a := cut.At(w.records, w.from)
		switch {
		case a.Facts.System():
			w.from = a.End
			continue
		case a.Facts.Question():
			if whole := begun && a.Turn == w.turn && !inside; !whole && w.enough() {
				return
			}
			w.passQuestion(a)
			continue
		case !begun || a.Turn != w.turn:
			behind := w.enter(a, end)
			if w.enough() || a.Turn == w.last && w.budget.Holds(w.window) {
				return
			}
			begun, inside = true, a.Turn == w.last || !w.half.Holds(w.head)
			if !inside && behind > 0 { // the whole turn goes
				w.window, w.head, w.from = w.window.Minus(w.head), cost{}, behind
				continue
			}
		case inside && w.enough():
			return
		}
		w.pass(a, inside)
	}
	if a := cut.At(w.records, newest); !a.Facts.System() && !a.Facts.Question() {
		w.enter(a, end) // only the question was left of that turn
	}
}

// enough reports whether the window has at most the share, or half of what remains besides the messages that no cut can
// remove.
func (w *walk) enough() bool {
	staying := w.kept.Plus(w.newest)
	if w.start.question >= 0 && w.start.question != w.userAt {
		staying = staying.Plus(w.question)
	}
	return w.limit.Holds(w.window) && leaves(w.window.Messages, staying.Messages, w.budget.Messages, w.low.Messages) &&
		leaves(w.window.Tokens, staying.Tokens, w.budget.Tokens, w.low.Tokens)
}

func leaves(window, staying, budget, low uint64) bool {
	if staying < budget {
		low = max(low, staying+(budget-staying)/2)
	}
	return budget == 0 || window <= low
}

// enter makes the turn of the atom at from the head. End is where the newest atom ends. It returns the end of the turn,
// or 0 if the turn was the head already.
func (w *walk) enter(a cut.Atom, end int) (behind int) {
	if a.Turn == w.turn {
		return 0
	}
	if q := w.start.question; q < 0 || w.records.At(q).Turn != a.Turn {
		w.keepQuestion(-1, cost{})
	}
	head := cost{}
	for behind = w.from; behind < end; {
		next := cut.At(w.records, behind)
		if !next.Facts.System() && next.Turn != a.Turn {
			break
		}
		if !next.Facts.Fixed() {
			head = head.Plus(next.Cost(behind))
		}
		behind = next.End
	}
	w.turn, w.head = a.Turn, head
	return behind
}

// pass moves the cut past the atom at from. A turn that is cut inside keeps its newest question.
func (w *walk) pass(a cut.Atom, inside bool) {
	first, keeps := w.from, inside && a.Facts.Has(mneme.User)
	w.from = a.End
	if a.Facts.Fixed() {
		if keeps {
			w.keepQuestion(-1, cost{})
		}
		return
	}
	c := a.Cost(first)
	w.head, w.window = w.head.Minus(c), w.window.Minus(c)
	if keeps {
		w.keepQuestion(first, w.asKept(first, a))
	}
}

// passQuestion moves the cut past an earlier question at from.
func (w *walk) passQuestion(a cut.Atom) {
	w.from = a.End
	if a.Facts.Fixed() {
		return
	}
	w.window.Tokens -= a.Tokens
	if a.Turn == w.turn {
		w.head.Tokens -= a.Tokens
	}
}

// keepQuestion keeps a question that the cut has passed, and drops the one kept before.
func (w *walk) keepQuestion(first int, c cost) {
	w.window = w.window.Minus(w.question).Plus(c)
	w.start.question, w.question = first, c
}

// ring has the costs of the newest turns with tool results, and which of them have thinking.
type ring struct {
	turns    [16]cost
	thinking uint32 // bits
	pushed   int
}

func (r *ring) push(c cost, thinks bool) {
	i := r.pushed % len(r.turns)
	r.turns[i] = c
	r.thinking &^= 1 << i
	if thinks {
		r.thinking |= 1 << i
	}
	r.pushed++
}

func (r *ring) thinks() bool { return r.thinking != 0 }

func (r *ring) len() int { return min(r.pushed, len(r.turns)) }

// largest returns the largest number of messages and the largest number of tokens among these turns.
func (r *ring) largest() (most cost) {
	for i := range r.len() {
		most.Messages = max(most.Messages, r.turns[i].Messages)
		most.Tokens = max(most.Tokens, r.turns[i].Tokens)
	}
	return most
}
