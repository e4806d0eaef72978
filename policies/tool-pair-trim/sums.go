package toolpairtrim

import (
	"github.com/seed-0906e6bc/mneme/policies/cut"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// sums is the cost of a table's atoms, divided by how a cut affects them.
type sums struct {
	system, must, pinned cut.Cost
	full                 cut.Cost // of turns that are not reduced to their questions
	questions            cut.Cost
	notices              bool // there are system-class records
}

// total returns the cost of the window if nothing is left out.
func (s sums) total() cut.Cost {
	return s.system.Plus(s.must).Plus(s.pinned).Plus(s.full).Plus(s.questions)
}

func sumsOf(req *mneme.Request) (s sums) {
	records, full := req.Records(), cut.Cost{}
	for i := 0; i < records.Len(); {
		first, a := i, cut.At(records, i)
		i = a.End
		if a.Facts.Plain() { // nearly all are
			full = full.Plus(cut.Cost{Messages: uint64(a.End - first), Tokens: a.Tokens})
		} else {
			s.add(a, a.Cost(first))
		}
	}
	s.full = full
	return s
}

// add counts an atom that is not in full, or that stays wherever the cut is.
//
//go:noinline
func (s *sums) add(a cut.Atom, c cut.Cost) {
	switch {
	case a.Facts.System():
		s.notices = true
		s.system = s.system.Plus(c)
	case a.Facts.Must():
		s.must = s.must.Plus(c)
	case a.Facts.Pinned():
		s.pinned = s.pinned.Plus(c)
	default:
		s.questions = s.questions.Plus(c)
	}
}
