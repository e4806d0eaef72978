package hook

import "github.com/seed-0906e6bc/mneme/engine/plan"

// FuelPerOp is what executing an op costs a step, in fuel.
const FuelPerOp = 100

// Step is how one step of a pipeline ended.
type Step struct {
	Policy  string
	Version int
	Digest  string // sha256:HEX
	Fuel    uint64
	Outcome plan.Status
	Detail  string         // why it failed
	Log     []plan.LogLine // what the policy wrote
}

// Result is what a pipeline decided.
type Result struct {
	Table   *Table // after the last step
	Steps   []Step
	Changes []Change // in the order of the steps
}

// Settled returns the change that settled what becomes of the candidate of admit, a REFUSE or a MERGE; nil if the
// candidate is to be stored as the table has it.
func (r *Result) Settled() *Change {
	for i := range r.Changes {
		if r.Changes[i].Ends() {
			return &r.Changes[i]
		}
	}
	return nil
}

// Find returns a record of the table by its id; nil if it is gone.
func (t *Table) Find(id int) *Record {
	for i := range t.Records {
		if t.Records[i].ID == id {
			return &t.Records[i]
		}
	}
	return nil
}

// Numbered returns a copy of the table. If fresh is true, the records get new ids: their indexes.
func (t *Table) Numbered(fresh bool) *Table {
	c := t.clone()
	if fresh {
		c.number()
	}
	return c
}

// Answered returns the table with the answer to an ASK as last record.
func (t *Table) Answered(text string) *Table {
	c := t.clone()
	id := 0
	for i := range c.Records {
		id = max(id, c.Records[i].ID+1)
	}
	c.Records = append(c.Records, Record{Kind: plan.KindAnswer, Role: plan.RoleSystem, Text: text, ID: id})
	c.Asked = true
	return c
}
