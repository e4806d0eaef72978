package toolpairtrim

import (
	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// questionTokens is the maximum number of tokens of an earlier question's text.
const questionTokens = 32

// outcome is the result of a plan.
type outcome struct {
	oldest      int  // the oldest message of the window
	lost        bool // a turn was dropped without its question
	first, last int  // the records dropped or reduced to their questions; first is -1 if there are none
}

// write writes the plan's ops for the records.
func (t *trim) write(plan *mneme.Plan, r *rules, s *start) outcome {
	o := outcome{oldest: -1, first: -1}
	w := writing{trim: t, rules: r, start: s, why: reasons{budget: t.budget, depth: r.depth.Turns}}
	asked := w.firstQuestion()
	end := max(s.from, s.asked, t.unpin)
	for i := 0; i < t.records.Len() && (i < end || o.oldest < 0); {
		run := cut.RunAt(t.records, i, w.runEnd(i))
		is := w.becomes(plan, i, run, asked)
		if is != untouched && o.first < 0 {
			o.first = i
		}
		if is != untouched {
			o.last = run.End - 1
		}
		o.lost = o.lost || is == gone
		if is != gone && !run.Facts.System() && o.oldest < 0 {
			o.oldest = i
		}
		i = run.End
	}
	if o.oldest < 0 {
		o.oldest = t.records.Len()
	}
	return o
}

// fate says what happens to a run.
type fate uint8

const (
	untouched fate = iota // it stays
	asking                // its question stays
	gone
)

// writing is a plan in progress.
type writing struct {
	*trim
	rules *rules
	start *start
	why   reasons
}

// runEnd returns the limit for the end of a run that begins at a record: the beginning of the window, or the bounds of
// the kept question.
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

// becomes writes the op for a run.
func (w *writing) becomes(plan *mneme.Plan, first int, run cut.Run, asked int) fate {
	last := run.End - 1
	a := cut.Atom{End: run.End, Turn: run.Turn, Facts: run.Facts}
	switch {
	case run.Facts.System():
		return untouched
	case first < w.unpin && run.Facts.OnlyPinned():
		plan.Drop(first, last, w.why.unpinned(plan))
		return gone
	case w.start.stays(first, a):
		if first == w.start.question && w.cutsQuestion(first) {
			plan.Truncate(first, last, int(w.rules.short), w.why.pasted(plan, w.rules.short))
		}
		return untouched
	case first >= asked && w.leavesQuestion(&run) && run.Facts.Question():
		return untouched
	case first >= asked && w.leavesQuestion(&run):
		plan.CompressTo(first, last, questionTokens, w.why.left(plan, w.start, first, run.Facts.Question()))
		return asking
	}
	plan.Drop(first, last, w.why.left(plan, w.start, first, run.Facts.Question()))
	return gone
}

// cutsQuestion reports whether the kept question is shortened.
func (w *writing) cutsQuestion(first int) bool {
	return first != w.start.userAt && w.rules.pasted(cut.At(w.records, first))
}

// leavesQuestion reports whether an earlier question can remain of a dropped run. A turn that is cut inside keeps its
// question, or has none.
func (w *writing) leavesQuestion(run *cut.Run) bool {
	if from := w.start.from; run.Turn == w.start.inside || from < w.records.Len() && w.records.At(from).Turn == run.Turn {
		return false
	}
	return run.Question > 0 && (run.Asks() || run.Facts.Question())
}

// firstQuestion returns the first record from which on dropped turns leave their questions: as many of the newest as
// there is room for.
func (w *writing) firstQuestion() int {
	room := w.questions
	if b := w.budget.Tokens; b > 0 {
		room = min(room, b-min(b, w.start.total.Tokens+w.named))
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

// asks returns the tokens of the question that can remain of a dropped run.
func (w *writing) asks(first int, run *cut.Run) uint64 {
	switch {
	case w.start.stays(first, cut.Atom{Facts: run.Facts}) || !w.leavesQuestion(run):
		return 0
	case run.Facts.Question():
		return run.Question
	}
	return min(run.Question, questionTokens+mneme.QuestionOverhead)
}
