package mnemetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// Check returns an error if the ABI forbids a plan for this table, like a host: ranges outside the table or
// overlapping, split atoms, a second SUMMARISE or LEDGER, a LEDGER of records that the plan keeps, an unknown template, unavailable arguments, or a reason that is not
// `code` or `code: free text`. For the hooks other than Assemble it refuses what the validity check of docs/ABI.md refuses.
func (t *Table) Check(ops []Op) error {
	if !t.assembles() {
		return t.checkHook(ops)
	}
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
		if op.Code != mneme.OpInsert && op.Code != mneme.OpLedger {
			ranges = append(ranges, op)
		}
	}
	if err := checkLedger(ops); err != nil {
		return err
	}
	for i, op := range ranges {
		for _, other := range ops {
			if other.Code == mneme.OpInsert && op.Code != mneme.OpKeep && op.Code != mneme.OpMask && op.First < other.First && other.First <= op.Last {
				return fmt.Errorf("mnemetest: op %v inserts inside the range of %v", other, op)
			}
		}
		for _, other := range ranges[:i] {
			if op.First <= other.Last && other.First <= op.Last && !mayOverlap(op, other) {
				return fmt.Errorf("mnemetest: ops %v and %v overlap", other, op)
			}
		}
	}
	return nil
}

// checkLedger returns an error if a plan has two LEDGERs, or one that begins or ends with a record that the plan keeps.
func checkLedger(ops []Op) error {
	ledgers := 0
	for _, op := range ops {
		if op.Code != mneme.OpLedger {
			continue
		}
		if ledgers++; ledgers > 1 {
			return fmt.Errorf("mnemetest: op %v is a second LEDGER", op)
		}
		for _, at := range []int{op.First, op.Last} {
			if !slices.ContainsFunc(ops, func(o Op) bool {
				return (o.Code == mneme.OpDrop || o.Code == mneme.OpCompress) && o.First <= at && at <= o.Last
			}) {
				return fmt.Errorf("mnemetest: op %v names record %d, which the plan keeps", op, at)
			}
		}
	}
	return nil
}

// mayOverlap reports whether two ops may name the same records: a KEEP and any op that leaves its atoms in the window,
// and REPLACEs of one record that change different parts of it.
func mayOverlap(a, b Op) bool {
	removes := []mneme.OpCode{mneme.OpDrop, mneme.OpCompress, mneme.OpSummarise}
	switch {
	case a.Code == mneme.OpMask || b.Code == mneme.OpMask:
		return a.Code != mneme.OpDrop && b.Code != mneme.OpDrop
	case a.Code == mneme.OpKeep:
		return !slices.Contains(removes, b.Code)
	case b.Code == mneme.OpKeep:
		return !slices.Contains(removes, a.Code)
	case a.Code != mneme.OpReplace || b.Code != mneme.OpReplace || a.Template == b.Template && a.Argument == b.Argument:
		return false
	}
	return a.First == a.Last && b.First == b.Last
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
	case mneme.OpDrop, mneme.OpSummarise, mneme.OpKeep:
		return t.checkAtoms(op)
	case mneme.OpLedger:
		if op.Argument == 0 || op.Argument > mneme.MaxLedger {
			return fmt.Errorf("LEDGER of %d tokens, 1 to %d are possible", op.Argument, mneme.MaxLedger)
		}
		return t.checkAtoms(op)
	case mneme.OpStrip:
		const all = mneme.ImageParts | mneme.AudioParts | mneme.DocumentParts | mneme.ThinkingParts
		if parts := mneme.Parts(op.Argument); parts == 0 || parts&^all != 0 {
			return errors.New("STRIP of no parts, or of unknown ones")
		}
	case mneme.OpMask:
		if len(op.Text) < 4 || len(op.Text) > 256 || strings.ContainsFunc(op.Text, func(r rune) bool { return r == '"' || r == '\\' || r < ' ' }) {
			return errors.New("MASK of a text that is not 4 to 256 bytes, or that JSON would escape")
		}
	case mneme.OpReplace:
		return t.checkReplace(op)
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
	case mneme.OpTruncate:
		if op.Argument == 0 {
			return errors.New("TRUNCATE to 0 tokens")
		}
	default:
		return errors.New("unknown op")
	}
	return nil
}

func (t *Table) checkReplace(op Op) error {
	switch {
	case op.Template == 0:
		return nil
	case op.Template != mneme.ReplaceArguments:
		return errors.New("unknown template")
	case op.First != op.Last || t.Records[op.First].Role != mneme.Assistant:
		return errors.New("arguments of what is not one assistant record")
	case int(op.Argument) >= len(t.Records[op.First].Calls):
		return errors.New("arguments of a call that is not there")
	}
	if was := t.Records[op.First].Calls[op.Argument].Arguments; json.Valid([]byte(was)) && !json.Valid([]byte(op.Text)) {
		return errors.New("arguments that were JSON, and are not any more")
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

// checkEdge returns an error if the position before a record is inside an atom.
func (t *Table) checkEdge(before int) error {
	if before > 0 && before < len(t.Records) && t.Records[before-1].Atom == t.Records[before].Atom {
		return errors.New("an atom is split")
	}
	return nil
}
