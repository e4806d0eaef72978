package policies_test

import (
	"slices"

	mneme "github.com/seed-0906e6bc/mneme/sdk/go"
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

// keep marks the records of the atoms that must stay, of those that are wanted, and of the system-class ones that have
// room.
func keep(t *mnemetest.Table, all []atom, want func(atom int) bool) []bool {
	kept := roomForNotices(t)
	for i, a := range all {
		for r := a.first; r <= a.last; r++ {
			kept[r] = kept[r] || !a.system() && (a.stays() || want(i))
		}
	}
	return kept
}

// roomForNotices marks the system-class records that have room beside what must stay: summary, memories and the rest,
// in this order, up to the first that has none.
func roomForNotices(t *mnemetest.Table) []bool {
	kept, used, notices := make([]bool, len(t.Records)), uint64(0), []int(nil)
	for _, a := range atoms(t) {
		for i, r := range a.records {
			switch {
			case a.system():
				notices = append(notices, a.first+i)
			case a.stays():
				used += uint64(r.Tokens)
			}
		}
	}
	worth := func(i int) int {
		return slices.Index([]mneme.Kind{mneme.Summary, mneme.Memory, mneme.Marker}, t.Records[i].Kind)
	}
	slices.SortStableFunc(notices, func(a, b int) int { return worth(a) - worth(b) })
	for _, i := range notices {
		if used += uint64(t.Records[i].Tokens); t.BudgetTokens > 0 && used > uint64(t.BudgetTokens) {
			break
		}
		kept[i] = true
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
