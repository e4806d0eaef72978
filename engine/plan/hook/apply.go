package hook

import (
	"encoding/json"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Change is an op of a pipeline that is to be executed. Its records are identified by Record.ID, because the indexes of
// later steps differ.
type Change struct {
	Step        int // index in the pipeline
	Code        plan.OpCode
	First, Last int    // ids
	Argument    uint32 // as in plan.Op
	Text        string // as in plan.Op; of a PATCH the whole spec that results
	Reason      string // its code alone
}

// Ends reports whether a change settles what becomes of a candidate, so that no further step runs.
func (c *Change) Ends() bool { return c.Code == plan.OpRefuse || c.Code == plan.OpMerge && c.Last == 0 }

// Apply returns the table after a step, and the step's changes. It returns the errors of Check, and then changes
// nothing. In admit a REFUSE or a MERGE leaves the table as it is.
func (t *Table) Apply(step int, ops []plan.Op) (*Table, []Change, error) {
	if err := t.check(ops); err != nil {
		return nil, nil, err
	}
	out, gone := t.clone(), map[int]bool{}
	changes := make([]Change, 0, len(ops))
	for n := range ops {
		op := &ops[n]
		c := Change{Step: step, Code: op.Code, First: t.Records[op.First].ID, Last: t.Records[op.Last].ID,
			Argument: op.Argument, Text: op.Text, Reason: ReasonCode(op.Reason)}
		switch op.Code {
		case plan.OpPatch:
			if err := out.patch(op); err != nil {
				return nil, nil, &plan.BadPlanError{Op: n, Detail: "its patch gives no valid memory: " + err.Error()}
			}
			c.Text = string(out.Records[op.First].Spec)
		case plan.OpMerge:
			if t.Hook == plan.HookRetain {
				out.merged(op)
				gone[c.Last] = true
			}
		case plan.OpForget:
			gone[c.First] = true
		case plan.OpDrop:
			for at := op.First; at <= op.Last; at++ {
				gone[t.Records[at].ID] = true
			}
		case plan.OpRank:
			out.Records[op.First].Score = op.Argument
		case plan.OpReplace:
			for at := op.First; at <= op.Last; at++ {
				out.Records[at].Text = op.Text
			}
		}
		changes = append(changes, c)
	}
	out.Records = slices.DeleteFunc(out.Records, func(r Record) bool { return gone[r.ID] })
	return out, changes, nil
}

// merged sets the text of a stored memory whose content another one replaces.
func (t *Table) merged(op *plan.Op) {
	if op.Argument == plan.KeepStored {
		return
	}
	into, text := &t.Records[op.First], op.Text
	if text == "" {
		text = t.Records[op.Last].Text
	}
	into.Text = text
	content, err := json.Marshal(map[string]string{"content": text})
	if err == nil {
		if spec, err := MergePatch(into.Spec, content); err == nil {
			into.Spec = spec
		}
	}
}

// patch changes the spec of a record, and what follows from it. Memories that become core never expire.
func (t *Table) patch(op *plan.Op) error {
	spec, err := MergePatch(t.Records[op.First].Spec, []byte(op.Text))
	if err != nil {
		return err
	}
	var category struct {
		Category string `json:"category"`
	}
	if json.Unmarshal(spec, &category) == nil && category.Category == "core" {
		if spec, err = MergePatch(spec, []byte(`{"expires_at":null}`)); err != nil {
			return err
		}
	}
	return t.Patched(t, int(op.First), spec)
}

// Ordered returns the records of a table of recall in the order of their scores, highest first; the query stays in
// front, and records of equal scores keep their order.
func (t *Table) Ordered() []Record {
	records := slices.Clone(t.Records)
	if len(records) > 0 {
		slices.SortStableFunc(records[1:], func(a, b Record) int { return int(int64(b.Score) - int64(a.Score)) })
	}
	return records
}
