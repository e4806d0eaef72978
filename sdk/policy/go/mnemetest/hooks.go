package mnemetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// The most ops of a kind in one plan.
const (
	maxStores  = 32
	maxMerges  = 32
	maxForgets = 64
)

// The ops that each hook takes.
var opsOf = map[mneme.Hook][]mneme.OpCode{
	mneme.Admit:    {mneme.OpRefuse, mneme.OpPatch, mneme.OpMerge},
	mneme.Remember: {mneme.OpReplace, mneme.OpStore, mneme.OpAsk},
	mneme.Recall:   {mneme.OpDrop, mneme.OpRank},
	mneme.Retain:   {mneme.OpPatch, mneme.OpMerge, mneme.OpForget},
}

// checkHook checks a plan of a hook other than Assemble.
func (t *Table) checkHook(ops []Op) error {
	counts, named := map[mneme.OpCode]int{}, map[int][]mneme.OpCode{}
	for _, op := range ops {
		if err := t.checkHookOp(op, len(ops)); err != nil {
			return fmt.Errorf("mnemetest: op %v: %w", op, err)
		}
		counts[op.Code]++
		if op.Code == mneme.OpStore {
			continue
		}
		for _, at := range op.records() {
			for _, other := range named[at] {
				if !beside(op.Code, other) {
					return fmt.Errorf("mnemetest: op %v names record %d, which another op names", op, at)
				}
			}
			named[at] = append(named[at], op.Code)
		}
	}
	if counts[mneme.OpStore] > maxStores || counts[mneme.OpMerge] > maxMerges || counts[mneme.OpForget] > maxForgets {
		return fmt.Errorf("mnemetest: more than %d STORE, %d MERGE or %d FORGET", maxStores, maxMerges, maxForgets)
	}
	return nil
}

// beside reports whether two ops may name the same record: a PATCH and a MERGE.
func beside(a, b mneme.OpCode) bool {
	return a == mneme.OpPatch && b == mneme.OpMerge || a == mneme.OpMerge && b == mneme.OpPatch
}

// records returns the records that an op changes.
func (o Op) records() []int {
	if o.Code == mneme.OpMerge {
		return []int{o.First, o.Last}
	}
	var all []int
	for at := o.First; at <= o.Last; at++ {
		all = append(all, at)
	}
	return all
}

func (t *Table) checkHookOp(op Op, ops int) error {
	if code, _, _ := strings.Cut(op.Reason, ": "); len(op.Reason) > mneme.MaxReason || strings.Contains(code, " ") {
		return fmt.Errorf("reason is not a code and free words within %d bytes", mneme.MaxReason)
	}
	if !slices.Contains(opsOf[t.Hook], op.Code) {
		return errors.New("the hook does not take the op")
	}
	n := len(t.Records)
	if op.First < 0 || op.Last < 0 || op.First >= n || op.Last >= n || op.First > op.Last && op.Code != mneme.OpMerge {
		return errors.New("records outside the table")
	}
	switch op.Code {
	case mneme.OpMerge:
		return t.checkMerge(op)
	case mneme.OpAsk:
		return t.checkAsk(op, ops)
	case mneme.OpStore:
		return t.checkStore(op)
	case mneme.OpReplace, mneme.OpDrop:
		return nil
	}
	if op.First != op.Last {
		return errors.New("a range where one record is possible")
	}
	return t.checkOne(op)
}

// checkOne checks an op that names one record.
func (t *Table) checkOne(op Op) error {
	r := &t.Records[op.First]
	switch op.Code {
	case mneme.OpRank:
		if r.Kind != mneme.Memory || op.Argument > mneme.MaxScore {
			return errors.New("RANK of what is not a hit, or above the maximum")
		}
		return nil
	case mneme.OpRefuse:
		if op.Reason == "" || r.Memory.Trust == mneme.TrustOperator {
			return errors.New("REFUSE without a reason, or of what an operator wrote")
		}
	case mneme.OpPatch:
		if !json.Valid([]byte(op.Text)) || !strings.HasPrefix(strings.TrimSpace(op.Text), "{") {
			return errors.New("PATCH that is not a JSON object")
		}
	}
	if t.Hook == mneme.Admit {
		if op.First != 0 {
			return errors.New("not the candidate")
		}
		return nil
	}
	return r.changeable()
}

// changeable returns an error if no policy may change a record.
func (r *Record) changeable() error {
	if r.Kind != mneme.Memory || r.Memory.Flags.Has(mneme.PinnedMemory) || r.Memory.Trust == mneme.TrustOperator {
		return errors.New("not a stored memory, or one that is pinned or an operator's")
	}
	return nil
}

func (t *Table) checkMerge(op Op) error {
	into, from := &t.Records[op.First], &t.Records[op.Last]
	if op.First == op.Last || op.Argument > mneme.KeepStored || op.Argument == mneme.KeepStored && op.Text != "" {
		return errors.New("MERGE of a record into itself, or an unknown argument, or a text that is not used")
	}
	if into.Kind != mneme.Memory || t.Hook == mneme.Admit && op.Last != 0 {
		return errors.New("MERGE into what is not a stored memory, or not of the candidate")
	}
	if t.Hook == mneme.Admit && from.Memory.Flags.Has(mneme.ClientKey) && into.Memory.Key != from.Memory.Key {
		return errors.New("MERGE of a candidate whose key the client chose into another key")
	}
	if t.Hook == mneme.Retain {
		if err := from.changeable(); err != nil {
			return err
		}
	}
	if op.Argument == mneme.KeepStored {
		if from.Memory.Trust > into.Memory.Trust {
			return errors.New("MERGE that keeps what is less trusted")
		}
		return nil
	}
	if from.Memory.Trust < into.Memory.Trust {
		return errors.New("MERGE of what is less trusted into what is more trusted")
	}
	return into.changeable()
}

func (t *Table) checkAsk(op Op, ops int) error {
	if ops > 1 || op.Text == "" || len(op.Text) > mneme.MaxPrompt || op.Argument == 0 || op.Argument > mneme.MaxAnswer {
		return errors.New("ASK beside other ops, or without a prompt or with too long a prompt, or with no or too many tokens")
	}
	if slices.ContainsFunc(t.Records, func(r Record) bool { return r.Kind == mneme.Answer }) {
		return errors.New("a second ASK")
	}
	return nil
}

func (t *Table) checkStore(op Op) error {
	var spec map[string]json.RawMessage
	if json.Unmarshal([]byte(op.Text), &spec) != nil || len(spec["content"]) == 0 {
		return errors.New("STORE of what is not a spec with content")
	}
	for _, r := range t.Records[op.First : op.Last+1] {
		if r.Role == mneme.System {
			return errors.New("STORE from what is not messages")
		}
	}
	return nil
}
