package mnemetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	mneme "github.com/seed-0906e6bc/mneme/sdk/go"
)

// Check says what the ABI forbids in a plan for this table, as a host would: ranges outside the table or overlapping,
// atoms split, a second SUMMARISE, a template that is not there, a reason that is not `code` or `code: free words`.
func (t *Table) Check(ops []Op) error {
	var ranges []Op
	summarised := false
	for _, op := range ops {
		if err := t.checkOp(op); err != nil {
			return fmt.Errorf("mnemetest: op %v: %w", op, err)
		}
		if op.Code == mneme.OpSummarise {
			if summarised {
				return fmt.Errorf("mnemetest: op %v is a second SUMMARISE", op)
			}
			summarised = true
		}
		if op.Code != mneme.OpInsert {
			ranges = append(ranges, op)
		}
	}
	slices.SortFunc(ranges, func(a, b Op) int { return a.First - b.First })
	for i := 1; i < len(ranges); i++ {
		if ranges[i].First <= ranges[i-1].Last {
			return fmt.Errorf("mnemetest: ops %v and %v overlap", ranges[i-1], ranges[i])
		}
	}
	return nil
}

func (t *Table) checkOp(op Op) error {
	if code, _, _ := strings.Cut(op.Reason, ": "); len(op.Reason) > mneme.MaxReason || strings.Contains(code, " ") {
		return fmt.Errorf("reason is not a code and free words within %d bytes", mneme.MaxReason)
	}
	if op.Code == mneme.OpInsert {
		if op.First < 0 || op.First > len(t.Records) {
			return errors.New("place outside the table")
		}
		return t.checkEdge(op.First)
	}
	if op.First < 0 || op.First > op.Last || op.Last >= len(t.Records) {
		return errors.New("range outside the table")
	}
	switch op.Code {
	case mneme.OpDrop, mneme.OpSummarise:
		return t.checkAtoms(op)
	case mneme.OpCompress:
		if op.Template != mneme.EarlierQuestion {
			return errors.New("unknown template")
		}
		return t.checkCompress(op)
	case mneme.OpStub:
		for _, r := range t.Records[op.First : op.Last+1] {
			if r.Role != mneme.Tool {
				return errors.New("STUB of what is not a tool result")
			}
		}
		if op.Template != mneme.SizeStub {
			return errors.New("unknown template")
		}
	case mneme.OpReplace, mneme.OpTruncate:
	default:
		return errors.New("unknown op")
	}
	return nil
}

func (t *Table) checkCompress(op Op) error {
	asks := false
	for _, r := range t.Records[op.First : op.Last+1] {
		if r.Turn != t.Records[op.First].Turn || r.Role == mneme.System {
			return errors.New("COMPRESS of more than one turn's messages")
		}
		asks = asks || r.Role == mneme.User
	}
	if !asks {
		return errors.New("COMPRESS without a user message")
	}
	return t.checkAtoms(op)
}

func (t *Table) checkAtoms(op Op) error {
	if err := t.checkEdge(op.First); err != nil {
		return err
	}
	return t.checkEdge(op.Last + 1)
}

// checkEdge says whether a place before a record is inside an atom.
func (t *Table) checkEdge(before int) error {
	if before > 0 && before < len(t.Records) && t.Records[before-1].Atom == t.Records[before].Atom {
		return errors.New("an atom is split")
	}
	return nil
}
