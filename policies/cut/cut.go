// Package cut works out where a window begins, for the built-in policies that leave out what is oldest.
//
// A model's provider bills and answers by the prefix that a prompt shares with the one before it, so a cut must stand
// still while the session grows. No policy remembers where it cut last. Instead it replays: it walks over the table
// from its first record, atom by atom, as if each had just been the newest. Whenever what is there exceeds the budget,
// the cut moves on until a share of the budget is left. The table's start stands still for many turns, so each replay
// finds the cuts of the one before, and a window begins with the window before it until the next cut.
package cut

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// FullShare is the part of a budget's tokens that turns in full may take. Beyond it the oldest become earlier questions,
// which have the rest.
const FullShare = 0.7

// ShareOf is the share that a policy's config asks for, or absent. At 1, each cut leaves as much as fits.
func ShareOf(req *mneme.Request, absent float64) float64 {
	share := req.ConfigFloat("low_water", absent)
	if !(share >= 0 && share < 1) {
		return 1
	}
	return share
}

// Share is what a cut leaves of each bound.
type Share struct{ Messages, Tokens float64 }

// Replay is what a replay goes by.
type Replay struct {
	Records mneme.Records
	Budget  Cost // 0: no bound
	Share   Share
	Beside  uint64 // tokens that the window holds beside the records that are counted
	// Notices has system-class records count, each from its place on.
	Notices bool
	// Room is the tokens that earlier questions may take, where Roomed. A cut leaves half of it.
	Room   uint64
	Roomed bool
}

// Cut is where a window begins. What lies before From goes, except atoms that are fixed and the one at Question. Earlier
// questions go by themselves, those before Asked.
type Cut struct {
	From     int
	Question int // the question of the turn that is cut inside; -1: none
	Asked    int
	Window   Cost   // what the window takes
	Exceeded Cost   // what it would have taken where the cut last moved; 0: it never did
	Crowd    uint64 // what earlier questions would have taken where they last outgrew their room; 0: they never did
}

// Stays tells whether the atom that begins at first is in the window.
func (c *Cut) Stays(first int, a Atom) bool {
	switch {
	case a.Facts.Fixed():
		return true
	case a.Facts.Question():
		return first >= c.Asked
	}
	return first >= c.From || first == c.Question
}

// Run walks over the table. It visits each record a bounded number of times, however often the cut moves.
//
//go:noinline
func (r *Replay) Run() Cut {
	if !r.Roomed && r.fits() {
		return Cut{Question: -1}
	}
	w := walk{Replay: r, half: r.Budget.Part(.5)}
	w.low = Cost{part(r.Budget.Messages, r.Share.Messages), part(r.Budget.Tokens, r.Share.Tokens)}
	w.Question, w.newestAt, w.userAt = -1, -1, -1
	w.window.Tokens, w.kept.Tokens = r.Beside, r.Beside
	// What most atoms change stands in variables, as few as a compiler keeps in registers.
	records, budget, window, turn := r.Records, r.Budget, w.window, w.turn
	newestAt, userAt, last := -1, -1, uint32(0)
	for i := 0; i < records.Len(); {
		first, a := i, At(records, i)
		i = a.End
		plain := a.Facts.Plain() && a.Turn != turn
		if plain {
			window = window.Plus(Cost{uint64(a.End - first), a.Tokens})
			newestAt, last = first, a.Turn
			if a.Facts.Has(mneme.User) {
				userAt = first
			}
			if budget.Holds(window) {
				continue
			}
		}
		w.window, w.newestAt, w.userAt, w.last = window, newestAt, userAt, last
		if plain || w.add(first, a) && !budget.Holds(w.window) {
			w.shorten(first, a.End)
		}
		window, newestAt, userAt, last, turn = w.window, w.newestAt, w.userAt, w.last, w.turn
	}
	w.Window = window
	return w.Cut
}

// fits tells whether all records together are within the budget, as most tables of short sessions are.
//
//go:noinline
func (r *Replay) fits() bool {
	tokens, messages := r.Beside, uint64(0)
	records := r.Records
	for i := range records.Len() {
		rec := records.At(i)
		if rec.Role == mneme.System {
			if !r.Notices {
				continue
			}
		} else if !rec.Flags.Has(mneme.Compressed) {
			messages++
		}
		if tokens += uint64(rec.Tokens); !r.Budget.Holds(Cost{messages, tokens}) {
			return false
		}
	}
	return r.Budget.Holds(Cost{messages, tokens})
}

// walk is a replay under way. The head is the turn that the window begins with.
type walk struct {
	*Replay
	Cut
	window    Cost
	low, half Cost   // of Budget: the share that a cut leaves, and a half
	kept      Cost   // of window: what stays whatever is newest
	newest    Cost   // of window: the newest atom and the newest user's message, which stay while they are
	newestAt  int    // the newest atom that a cut may pass later; -1: there is none yet
	userAt    int    // the newest user's message; -1: there is none yet
	last      uint32 // the newest turn's number
	turn      uint32 // the head's number
	head      Cost   // of window: what a cut may take away of the head
	question  Cost   // of the atom at Question
	questions uint64 // tokens of the earlier questions in the window
}

// add has one more atom be the newest; false where it does not count.
//
//go:noinline
func (w *walk) add(first int, a Atom) bool {
	if a.Facts.System() && !w.Notices {
		return false
	}
	c := a.Cost(first)
	w.window = w.window.Plus(c)
	if !a.Facts.System() {
		w.last = a.Turn
	}
	if a.Facts.System() || a.Facts.Pinned() {
		w.kept = w.kept.Plus(c)
	} else {
		w.newestAt = first
		if a.asks() {
			w.userAt = first
		}
	}
	if a.Turn == w.turn && !a.Facts.Fixed() && !a.Facts.Question() {
		w.head = w.head.Plus(c)
	}
	if a.Facts.Question() && !a.Facts.Fixed() {
		if w.questions += a.Tokens; w.Roomed && w.questions > w.Room {
			w.Crowd = w.questions
			w.forget(first, true)
		}
	}
	return true
}

// asks tells whether the atom is a user's message in full.
func (a *Atom) asks() bool { return a.Facts.Has(mneme.User) && !a.Facts.Question() }

// shorten leaves out what is oldest where the newest atom has made the window exceed the budget.
//
//go:noinline
func (w *walk) shorten(newest, end int) {
	w.Exceeded, w.newest = w.window, Cost{}
	if w.newestAt >= 0 {
		a := At(w.Records, w.newestAt)
		w.newest = a.Cost(w.newestAt)
		if w.userAt >= 0 && !a.asks() {
			user := At(w.Records, w.userAt)
			w.newest = w.newest.Plus(user.Cost(w.userAt))
		}
	}
	if w.Budget.Tokens != 0 && w.window.Tokens > w.Budget.Tokens {
		w.forget(newest, false)
	}
	if !w.Budget.Holds(w.window) { // without questions it may
		w.move(newest, end)
	}
}

// forget leaves out earlier questions, oldest first: until half of their room is left where they are a crowd, and else
// until the share is.
func (w *walk) forget(newest int, crowd bool) {
	for w.Asked < newest && w.questions > 0 {
		if crowd && w.questions <= w.Room/2 || !crowd && w.enoughTokens() {
			return
		}
		a := At(w.Records, w.Asked)
		if a.Facts.Question() && !a.Facts.Fixed() {
			w.window.Tokens -= a.Tokens
			w.questions -= a.Tokens
		}
		w.Asked = a.End
	}
}

// move leaves out what is oldest until the share is left: turn by turn, and atom by atom in a turn that takes more than
// half of the budget. The turn that the newest atom belongs to stays whole where it fits.
func (w *walk) move(newest, end int) {
	begun, inside := false, false
	for w.From < newest {
		a := At(w.Records, w.From)
		if a.Facts.System() || a.Facts.Question() {
			w.From = a.End
			continue
		}
		if !begun || a.Turn != w.turn {
			behind := w.enter(a, end)
			if w.enough() || a.Turn == w.last && w.Budget.Holds(w.window) {
				return
			}
			begun, inside = true, a.Turn == w.last || !w.half.Holds(w.head)
			if !inside && behind > 0 { // the turn goes whole
				w.window, w.head, w.From = w.window.Minus(w.head), Cost{}, behind
				continue
			}
		} else if inside && w.enough() {
			return
		}
		w.pass(a, inside)
	}
	if a := At(w.Records, newest); !a.Facts.System() && !a.Facts.Question() {
		w.enter(a, end) // nothing else is left of the turn whose question was kept
	}
}

// enough tells whether no more than the share is left, or half of what lies beside the messages that no cut takes away.
func (w *walk) enough() bool {
	return leaves(w.window.Messages, w.staying().Messages, w.Budget.Messages, w.low.Messages) && w.enoughTokens()
}

func (w *walk) enoughTokens() bool {
	return leaves(w.window.Tokens, w.staying().Tokens, w.Budget.Tokens, w.low.Tokens)
}

func leaves(window, staying, budget, low uint64) bool {
	if staying < budget {
		low = max(low, staying+(budget-staying)/2)
	}
	return budget == 0 || window <= low
}

// staying is what no cut takes away while the newest atom is the newest.
func (w *walk) staying() Cost {
	c := w.kept.Plus(w.newest)
	if w.Question >= 0 && w.Question != w.userAt {
		c = c.Plus(w.question)
	}
	return c
}

// enter has the turn of the atom at From be the head. End is where the newest atom ends. It gives where the turn ends, or 0
// where it was the head already.
func (w *walk) enter(a Atom, end int) (behind int) {
	if a.Turn == w.turn {
		return 0
	}
	w.ask(-1, Cost{})
	records, head := w.Records, Cost{}
	for behind = w.From; behind < end; {
		next := At(records, behind)
		if next.Facts.Plain() {
			if next.Turn != a.Turn {
				break
			}
			head = head.Plus(Cost{uint64(next.End - behind), next.Tokens})
		} else if !next.Facts.System() && next.Turn != a.Turn {
			break
		}
		behind = next.End
	}
	w.turn, w.head = a.Turn, head
	return behind
}

// pass moves the cut behind the atom at From. A turn that is cut inside keeps its newest question.
func (w *walk) pass(a Atom, inside bool) {
	first, asks := w.From, inside && a.Facts.Has(mneme.User)
	w.From = a.End
	if a.Facts.Fixed() {
		if asks {
			w.ask(-1, Cost{})
		}
		return
	}
	c := a.Cost(first)
	w.head = w.head.Minus(c)
	if asks {
		w.ask(first, c)
		return
	}
	w.window = w.window.Minus(c)
}

// ask keeps a question that the cut has passed, in the place of the one that was kept before.
func (w *walk) ask(first int, c Cost) {
	if w.Question >= 0 {
		w.window = w.window.Minus(w.question)
	}
	w.Question, w.question = first, c
}
