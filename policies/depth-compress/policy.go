// Package depthcompress is the built-in policy that keeps the newest turns in full and of older ones only the question.
package depthcompress

import (
	"math"

	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// DefaultDepth is the number of turns kept in full where the config names none, and DefaultStep by how many turns the
// boundary then moves at a time.
const (
	DefaultDepth = 20
	DefaultStep  = 20
)

// defaultShare is what a cut leaves of max_messages where the config names nothing.
const defaultShare = 0.75

// Assemble compresses each run of records of an old turn to its question, or drops the run where it has no question. A
// turn is old where it lies beyond the depth, or beyond what the budget holds of turns in full. Both boundaries move in
// steps, so that windows share their beginnings. Turns count by their places, so that a turn that an earlier policy
// dropped still counts. Records that are compressed, system-class, mandatory or pinned stay as they are.
func Assemble(req *mneme.Request, plan *mneme.Plan) error {
	b := boundaries(req)
	if b.newest == 0 && b.from == 0 {
		return nil
	}
	records := req.Records()
	why := reasons{depth: b.depth}
	for first, end := 0, b.end(records); first < end; {
		r := b.runAt(records, first)
		switch {
		case r.old == full || r.dear() && b.tokensAlone(records):
		case r.asks:
			plan.Compress(first, r.end-1, why.compress(plan, r.old))
		default:
			plan.Drop(first, r.end-1, why.drop(plan, r.old))
		}
		first = r.end
	}
	return nil
}

// boundary says which turns are old.
type boundary struct {
	depth  int64
	newest uint32 // the newest turn beyond the depth, by its place
	from   int    // the record that the replay's cut lies before
	turn   uint32 // its turn, which may be cut inside
	asked  int    // the question that this turn keeps then; -1: none
	last   uint32 // the newest turn, which stays in full: tool-pair-trim cuts it where it must
	tokens short  // whether tokens alone are
	most   uint64 // messages that the window may have
}

func boundaries(req *mneme.Request) boundary {
	b := boundary{depth: req.ConfigInt("depth", DefaultDepth)}
	b.newest = newestOld(newestPlace(req), b.depth, req.ConfigInt("depth_step", DefaultStep))
	budget := cut.Cost{Messages: uint64(req.BudgetMessages), Tokens: uint64(req.BudgetTokens)}
	full := cut.Cost{Messages: budget.Messages, Tokens: budget.Part(cut.FullShare).Tokens}
	share := cut.ShareOf(req, defaultShare)
	// Full turns have but a part of the budget's tokens, so a cut takes away a quarter of what it takes of the messages.
	left := cut.Share{Messages: share, Tokens: (3 + share) / 4}
	r := cut.Replay{Records: req.Records(), Budget: full, Share: left}
	c := r.Run()
	b.from, b.asked, b.most = c.From, c.Question, budget.Messages
	if b.most == 0 {
		b.most = math.MaxUint64
	}
	if c.Exceeded.Messages > b.most {
		b.tokens = shortOfMessages
	}
	if b.from < req.Len() {
		b.turn = req.Record(b.from).Turn
	}
	for i := req.Len() - 1; i >= 0 && b.last == 0; i-- {
		b.last = req.Record(i).Turn // 0 of system-class records
	}
	return b
}

// short says what the budget lacks.
type short uint8

const (
	shortUnknown short = iota
	shortOfTokens
	shortOfMessages
)

// tokensAlone tells whether tokens alone are short, and not messages. Only a turn whose question costs as much as the
// whole asks that, and few do.
func (b *boundary) tokensAlone(records mneme.Records) bool {
	if b.tokens == shortUnknown {
		b.tokens = shortOfTokens
		if b.messagesLeft(records) > b.most {
			b.tokens = shortOfMessages
		}
	}
	return b.tokens == shortOfTokens
}

// messagesLeft counts the messages that stay where turns whose questions cost as much as the whole are left: each of them
// is a message, and an earlier question is none.
//
//go:noinline
func (b *boundary) messagesLeft(records mneme.Records) (n uint64) {
	if b.most == math.MaxUint64 || b.from == 0 {
		return 0
	}
	first := 0
	for end := b.end(records); first < end; {
		r := b.runAt(records, first)
		if r.old == full || r.dear() {
			n += r.messages
		}
		first = r.end
	}
	for ; first < records.Len(); first++ {
		n += messages(records.At(first))
	}
	return n
}

// newestOld is the place of the newest turn beyond the depth; 0: none is. It moves by step turns at a time, so that
// between depth and depth+step turns are in full.
func newestOld(newest uint32, depth, step int64) uint32 {
	depth, step = min(max(depth, 0), math.MaxUint32), min(max(step, 1), math.MaxUint32)
	beyond := int64(newest) - depth - step/2
	if beyond < 0 {
		return 0
	}
	return uint32(beyond/step*step + step/2)
}

// newestPlace is the place of the newest turn, which may have no record left.
func newestPlace(req *mneme.Request) uint32 {
	for i := req.Len() - 1; i >= 0; i-- {
		if r := req.Record(i); r.Role != mneme.System && r.Place <= r.Turn {
			return req.NewestTurn - min(r.Turn-r.Place, req.NewestTurn)
		}
	}
	return req.NewestTurn
}

// age says why a turn is old.
type age uint8

const (
	full       age = iota // it is not
	beyondRoom            // the budget does not hold it in full
	beyondDepth
)

// run is consecutive whole atoms, up to end. If old, they are of one old turn and none must stay as it is; if not, it
// is one atom.
type run struct {
	end   int
	old   age
	asks  bool  // there is a user message among them
	saves int64 // tokens, where its question takes its place

	messages uint64
}

// dear tells whether the question costs as much as the whole. A window never grows by what the budget has compressed, so
// where tokens alone are short such a turn is left as it is.
func (r *run) dear() bool { return r.old == beyondRoom && r.asks && r.saves <= 0 }

// end is where the records begin of which none is old: what lies there stays as it is.
//
//go:noinline
func (b *boundary) end(records mneme.Records) int {
	end := records.Len()
	for end > 0 && b.age(end-1, records.At(end-1)) == full {
		end--
	}
	return end
}

//go:noinline
func (b *boundary) runAt(records mneme.Records, first int) (r run) {
	turn := records.At(first).Turn
	for at := first; at < records.Len(); {
		head := records.At(at)
		if at > first && head.Turn != turn {
			return r
		}
		next := run{end: at, old: b.age(at, head)}
		for rec := head; rec.Atom == head.Atom; rec = records.At(next.end) {
			if rec.Role == mneme.System || rec.Flags.Has(mneme.Mandatory|mneme.Compressed|mneme.Pinned) {
				next.old = full
			}
			next.asks = next.asks || rec.Role == mneme.User
			next.saves += int64(rec.Tokens) - int64(rec.CompressedTokens)
			next.messages += messages(rec)
			if next.end++; next.end == records.Len() {
				break
			}
		}
		if at > first && next.old == full {
			return r
		}
		if at == first {
			r.old = next.old
		}
		at = next.end
		r.end, r.asks, r.saves, r.messages = next.end, r.asks || next.asks, r.saves+next.saves, r.messages+next.messages
		if r.old == full {
			return r
		}
	}
	return r
}

// messages is 1 of a message, and 0 of what counts as none.
func messages(r *mneme.Record) uint64 {
	if r.Role == mneme.System || r.Flags.Has(mneme.Compressed) {
		return 0
	}
	return 1
}

func (b *boundary) age(at int, r *mneme.Record) age {
	switch {
	case r.Place <= b.newest:
		return beyondDepth
	case at < b.from && (r.Turn != b.turn || r.Turn != b.last && at != b.asked):
		return beyondRoom
	}
	return full
}
