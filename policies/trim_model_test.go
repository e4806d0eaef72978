package policies_test

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/sdk/go/mnemetest"
)

// trimmed is what tool-pair-trim must answer.
type trimmed struct {
	kept   []bool // by record
	marker bool
}

// model tries every cut, oldest first, and takes the first that fits: the rule read aloud, without a shortcut.
// MarkerCost is what the policy must set aside for its marker.
func model(t *mnemetest.Table, markerCost uint64) trimmed {
	marker, ok := t.Config["marker"].(bool)
	marker = marker || !ok
	all := atoms(t)
	if fits(t, keep(t, all, func(int) bool { return true }), 0) {
		return trimmed{kept: keep(t, all, func(int) bool { return true })}
	}
	reserve := uint64(0)
	if marker && t.BudgetTokens > 0 {
		if marker = fits(t, keep(t, all, func(int) bool { return false }), markerCost); marker {
			reserve = markerCost
		}
	}
	starts := turnStarts(all)
	for _, start := range starts {
		if kept := keep(t, all, func(i int) bool { return i >= start }); fits(t, kept, reserve) {
			return done(kept, marker)
		}
	}
	if len(starts) == 0 {
		return done(keep(t, all, func(int) bool { return false }), marker)
	}
	newest, question := starts[len(starts)-1], -1
	for i := newest; i < len(all); i++ {
		if all[i].asks() {
			question = i
		}
	}
	if question >= 0 && !fits(t, keep(t, all, func(i int) bool { return i == question }), reserve) {
		question = -1
	}
	for start := newest; start <= len(all); start++ {
		if kept := keep(t, all, func(i int) bool { return i >= start || i == question }); fits(t, kept, reserve) {
			return done(kept, marker)
		}
	}
	return done(keep(t, all, func(int) bool { return false }), marker)
}

func done(kept []bool, marker bool) trimmed {
	return trimmed{kept: kept, marker: marker && slices.Contains(kept, false)}
}

// keep marks the records of the atoms that must stay and of those that are wanted.
func keep(t *mnemetest.Table, all []atom, want func(atom int) bool) []bool {
	kept := make([]bool, len(t.Records))
	for i, a := range all {
		for r := a.first; r <= a.last; r++ {
			kept[r] = a.stays() || want(i)
		}
	}
	return kept
}

// fits tells whether the kept records and something more are within the budget.
func fits(t *mnemetest.Table, kept []bool, extraTokens uint64) bool {
	messages, tokens := uint64(0), extraTokens
	for i, r := range t.Records {
		if kept[i] {
			tokens += uint64(r.Tokens)
			if !(atom{records: t.Records[i : i+1]}).system() {
				messages++
			}
		}
	}
	return (t.BudgetMessages == 0 || messages <= uint64(t.BudgetMessages)) &&
		(t.BudgetTokens == 0 || tokens <= uint64(t.BudgetTokens))
}

// turnStarts are the atoms with which a turn begins.
func turnStarts(all []atom) []int {
	var starts []int
	last := -1
	for i, a := range all {
		if a.system() {
			continue
		}
		if last < 0 || all[last].records[0].Turn != a.records[0].Turn {
			starts = append(starts, i)
		}
		last = i
	}
	return starts
}
