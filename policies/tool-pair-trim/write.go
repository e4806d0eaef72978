package toolpairtrim

import (
	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// write writes what becomes of the records. It returns where the oldest message of the window stands, and whether any
// turn went without its question.
func (t *trim) write(plan *mneme.Plan, r *rules, s *start) (oldest int, left bool) {
	oldest = -1
	w := writing{trim: t, rules: r, start: s, why: reasons{budget: t.budget, depth: r.depth.Turns}}
	asked := w.firstQuestion()
	end := max(s.from, s.asked, t.unpin)
	for i := 0; i < t.records.Len() && (i < end || oldest < 0); {
		run := cut.RunAt(t.records, i, w.runEnd(i))
		gone, shown := w.becomes(plan, i, run, asked)
		left = left || gone
		if shown && oldest < 0 {
			oldest = i
		}
		i = run.End
	}
	if oldest < 0 {
		oldest = t.records.Len()
	}
	return oldest, left
}

// writing is a plan under way.
type writing struct {
	*trim
	rules *rules
	start *start
	why   reasons
}

// runEnd is where a run that begins at a record ends at the latest: where the window begins, and around the question
// that is kept.
func (w *writing) runEnd(i int) int {
	s := w.start
	switch {
	case i < s.question:
		return s.question
	case i == s.question:
		return cut.At(w.records, i).End
	case i < s.from:
		return s.from
	}
	return w.records.Len()
}

// becomes writes what becomes of a run. It tells whether it went and left nothing, and whether any of it is shown.
func (w *writing) becomes(plan *mneme.Plan, first int, run cut.Run, asked int) (gone, shown bool) {
	last := run.End - 1
	a := cut.Atom{End: run.End, Turn: run.Turn, Facts: run.Facts}
	switch {
	case run.Facts.System():
		return false, false
	case first < w.unpin && run.Facts.OnlyPinned():
		plan.Drop(first, last, w.why.unpinned(plan))
		return true, false
	case w.start.stays(first, a):
		if first == w.start.question && w.cutsQuestion(first) {
			plan.Truncate(first, last, int(w.rules.short), w.why.pasted(plan, w.rules.short))
		}
		return false, true
	case first >= asked && w.leavesQuestion(&run):
		if !run.Facts.Question() { // else it is one already
			plan.Compress(first, last, w.why.left(plan, w.start, first, run.Facts.Question()))
		}
		return false, true
	}
	plan.Drop(first, last, w.why.left(plan, w.start, first, run.Facts.Question()))
	return true, false
}

// cutsQuestion tells whether the question that is kept is shown cut.
func (w *writing) cutsQuestion(first int) bool {
	return first != w.start.userAt && w.rules.pasted(cut.At(w.records, first))
}

// leavesQuestion tells whether an earlier question can be left of a run that goes. A turn that is cut inside keeps its
// question, or has none.
func (w *writing) leavesQuestion(run *cut.Run) bool {
	if from := w.start.from; run.Turn == w.start.inside || from < w.records.Len() && w.records.At(from).Turn == run.Turn {
		return false
	}
	return run.Question > 0 && (run.Asks() || run.Facts.Question())
}

// firstQuestion is the record from which on turns that go leave their questions, as many as have room, the newest first.
func (w *writing) firstQuestion() int {
	room := w.questions
	if b := w.budget.Tokens; b > 0 {
		room = min(room, b-min(b, w.start.total.Tokens))
	}
	total := uint64(0)
	end := max(w.start.from, w.start.asked)
	for i := 0; i < end; {
		run := cut.RunAt(w.records, i, w.runEnd(i))
		total += w.asks(i, &run)
		i = run.End
	}
	first := 0
	for first < end && total > room {
		run := cut.RunAt(w.records, first, w.runEnd(first))
		total -= w.asks(first, &run)
		first = run.End
	}
	return first
}

// asks is the tokens of the question that can be left of a run that goes.
func (w *writing) asks(first int, run *cut.Run) uint64 {
	if w.start.stays(first, cut.Atom{Facts: run.Facts}) || !w.leavesQuestion(run) {
		return 0
	}
	return run.Question
}
