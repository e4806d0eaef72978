package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// BadPlanError says which op of a plan, by index, breaks which rule. No op was applied.
type BadPlanError struct {
	Op     int
	Detail string
}

func (e *BadPlanError) Error() string { return fmt.Sprintf("op %d: %s", e.Op, e.Detail) }

// check checks the ops against the rules of the ABI. It returns the indexes of all but KEEPs, MASKs and the LEDGER, in the order
// of their positions, inserts first.
func check(items []Item, ops []Op) ([]int, error) {
	order := make([]int, len(ops))
	for n := range ops {
		order[n] = n
		if detail := checkOp(items, &ops[n]); detail != "" {
			return nil, &BadPlanError{n, detail}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		c := cmp.Or(cmp.Compare(ops[a].First, ops[b].First), cmp.Compare(rank(&ops[a]), rank(&ops[b])))
		if c == 0 && rank(&ops[a]) == rankArguments {
			c = cmp.Compare(ops[a].Argument, ops[b].Argument)
		}
		return c
	})
	// First what a KEEP may not overlap, then what other ops may not.
	if err := checkRanges(ops, order, func(op *Op) bool { return op.Code == OpKeep || removes(op) }); err != nil {
		return nil, err
	}
	order = slices.DeleteFunc(order, func(n int) bool { return ops[n].Code == OpKeep || ops[n].Code == OpMask || ops[n].Code == OpLedger })
	if err := checkRanges(ops, order, func(*Op) bool { return true }); err != nil {
		return nil, err
	}
	if err := checkMasked(items, ops); err != nil {
		return nil, err
	}
	return order, checkLedger(items, ops)
}

// removes reports whether an op removes records from the window.
func removes(op *Op) bool {
	return op.Code == OpDrop || op.Code == OpCompress || op.Code == OpSummarise
}

// checkRanges checks the ops for which counts returns true against each other.
func checkRanges(ops []Op, order []int, counts func(*Op) bool) error {
	end, last, summary := uint32(0), -1, -1
	for _, n := range order {
		op := &ops[n]
		if !counts(op) {
			continue
		}
		if op.Code == OpSummarise {
			if summary >= 0 {
				return &BadPlanError{n, fmt.Sprintf("summarises a second time, after op %d", summary)}
			}
			summary = n
		}
		if op.Code == OpInsert {
			// An insert inside a range that another op changes as a whole would have no position.
			if last >= 0 && op.First < end {
				return &BadPlanError{n, fmt.Sprintf("inserts before record %d, inside the range of op %d",
					op.First, last)}
			}
			continue
		}
		if last >= 0 && op.First < end && !ops[last].shares(op) {
			return &BadPlanError{n, fmt.Sprintf("its range %d..%d overlaps that of op %d", op.First, op.Last,
				last)}
		}
		if op.Last+1 >= end {
			end, last = op.Last+1, n
		}
	}
	return nil
}

// shares reports whether two ops may name the same records: KEEPs always may, and REPLACEs of one record if they change
// different parts of it.
func (op *Op) shares(next *Op) bool {
	if op.Code != next.Code {
		return false
	}
	return op.Code == OpKeep ||
		op.Code == OpReplace && op.First == op.Last && next.First == next.Last && op.First == next.First &&
			(op.Template != next.Template || op.Argument != next.Argument)
}

// rank orders ops at the same position.
func rank(op *Op) int {
	switch {
	case op.Code == OpInsert:
		return 0
	case op.Code == OpReplace && op.Template == ReplaceArguments:
		return rankArguments
	}
	return 1
}

// rankArguments is the rank of ops that change a call's arguments. They come after those that change the text of the
// same record.
const rankArguments = 2

// checkOp returns what is wrong with one op, or "".
func checkOp(items []Item, op *Op) string {
	n := uint32(len(items))
	if op.Code == OpInsert {
		switch {
		case op.First > n:
			return fmt.Sprintf("inserts before record %d of %d", op.First, n)
		case splits(items, op.First):
			return fmt.Sprintf("inserts before record %d, inside an atom", op.First)
		}
		return ""
	}
	if op.First > op.Last || op.Last >= n {
		return fmt.Sprintf("its range %d..%d is not inside the %d records", op.First, op.Last, n)
	}
	in := items[op.First : op.Last+1]
	switch op.Code {
	case OpDrop, OpSummarise, OpCompress, OpKeep, OpLedger:
		if splits(items, op.First) || splits(items, op.Last+1) {
			return fmt.Sprintf("its range %d..%d splits an atom", op.First, op.Last)
		}
		if op.Code == OpCompress {
			return checkCompress(in, op)
		}
		if op.Code == OpLedger && (op.Argument == 0 || op.Argument > MaxLedger) {
			return fmt.Sprintf("makes a ledger of %d tokens; 1 to %d are possible", op.Argument, MaxLedger)
		}
	case OpMask:
		return checkMask(op.Text)
	case OpTruncate:
		if op.Argument == 0 {
			return "truncates to 0 tokens"
		}
	case OpReplace:
		if op.Template == ReplaceArguments && (len(in) != 1 || in[0].Role != RoleAssistant) {
			return fmt.Sprintf("replaces arguments in the range %d..%d, which is not one assistant's record", op.First,
				op.Last)
		}
	case OpStrip:
		if parts := Parts(op.Argument); parts == 0 || parts&^allParts != 0 {
			return fmt.Sprintf("strips the parts %d, which is 0 or has unknown bits", op.Argument)
		}
	case OpStub:
		for i := range in {
			if in[i].Role != RoleTool {
				return fmt.Sprintf("stubs record %d, which is no tool result", op.First+uint32(i))
			}
		}
	}
	return ""
}

// checkCompress returns what is wrong with the range of a COMPRESS, or "".
func checkCompress(in []Item, op *Op) string {
	users := 0
	for i := range in {
		switch {
		case in[i].Role == RoleSystem:
			return fmt.Sprintf("compresses record %d, which is system-class", op.First+uint32(i))
		case in[i].Turn != in[0].Turn:
			return fmt.Sprintf("its range %d..%d spans turns %d and %d", op.First, op.Last, in[0].Turn, in[i].Turn)
		case in[i].Role == RoleUser:
			users++
		}
	}
	if users == 0 {
		return fmt.Sprintf("its range %d..%d holds no user message", op.First, op.Last)
	}
	return ""
}

// splits reports whether a cut before record at would divide an atom.
func splits(items []Item, at uint32) bool {
	return at > 0 && at < uint32(len(items)) && items[at-1].Atom == items[at].Atom && items[at].Role != RoleSystem
}
