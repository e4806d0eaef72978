// Package hook defines the tables and the plans of the hooks that decide about memories: admit, remember, recall and
// retain. A Table is the input of their policies, Check is the validity check of their plans, and Apply gives the table
// that a pipeline's next step sees. Nothing here reads or writes memories.
//
// docs/ABI.md describes the hooks and the rules of their plans.
package hook

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Record is one entry of a table: a candidate, a memory, a message, an answer or a query.
type Record struct {
	Kind plan.Kind
	Role plan.Role
	Text string // the content of a candidate or a memory, the words of a message, an answer or a query
	// Spec is the spec of a candidate or a memory as JSON, as clients send it, with key and namespace. It is empty for
	// other records.
	Spec  []byte
	Tags  []string
	Calls []plan.Called // of an assistant's message; of a tool's message, the call that it answers

	Key, Namespace, Session string // the namespace as JSON; all "" for messages
	Value                   string // of a memory or candidate, as compact JSON; "" if it has none

	plan.Extra             // without string ids, which the request sets
	Head       plan.Record // the rest; the request sets kind, role, atom, text bytes, tool and tags

	// ID identifies the record in the results of a pipeline: its index in the first step's table.
	ID int
}

// Table is the input of a pipeline of a memory hook. It is not changed: each step makes a new one.
type Table struct {
	Hook    plan.Hook
	Origin  plan.Origin
	Records []Record // record 0 is the candidate of admit, and the query of recall
	Budget  uint32   // tokens: of hits in recall, left of the day in remember; 0 means no limit
	Now     int64    // ms since 1970
	Seed    uint64
	Asked   bool // the pipeline has asked a model; the last record is the answer

	// Patched sets a record's spec to one that a PATCH gave, in a table that nobody else uses. It updates what follows
	// from the spec: the record's text, tags and fields, and what relates other records to a candidate. It makes new
	// slices instead of changing what slices hold. It returns an error, for the policy's author, if the spec is invalid.
	Patched func(t *Table, record int, spec []byte) error
	// Count counts the tokens of a text; whole is false if it was stopped.
	Count func(text string, stop func() bool) (tokens int, whole bool)
	// Rate returns how well a text matches a query, from 0 to plan.MaxScore.
	Rate func(text, query string) int
}

// number sets the records' ids.
func (t *Table) number() {
	for i := range t.Records {
		t.Records[i].ID = i
	}
}

// clone returns a copy whose records can be changed.
func (t *Table) clone() *Table {
	c := *t
	c.Records = slices.Clone(t.Records)
	return &c
}

// Request returns the request of one step. Each record is an atom.
func (t *Table) Request(config []plan.ConfigEntry) *plan.Request {
	r := &plan.Request{Hook: t.Hook, Origin: t.Origin, BudgetTokens: t.Budget, Now: t.Now, Seed: t.Seed, Config: config,
		Strings: []string{""}, Records: make([]plan.Record, len(t.Records)), Extra: make([]plan.Extra, len(t.Records))}
	ids := map[string]uint32{"": 0}
	id := func(s string) uint32 {
		n, ok := ids[s]
		if !ok {
			n = uint32(len(r.Strings))
			ids[s], r.Strings = n, append(r.Strings, s)
		}
		return n
	}
	for i := range t.Records {
		from, to, extra := &t.Records[i], &r.Records[i], &r.Extra[i]
		*to, *extra = from.Head, from.Extra
		to.Kind, to.Role, to.Atom, to.TextBytes = from.Kind, from.Role, uint32(i), uint32(len(from.Text))
		to.Agent, to.Tool = 0, 0
		if len(from.Calls) == 1 {
			to.Tool = id(from.Calls[0].Name)
		}
		to.TagsAt, to.TagCount = uint32(len(r.Tags)), uint32(len(from.Tags))
		for _, tag := range from.Tags {
			r.Tags = append(r.Tags, id(tag))
		}
		extra.Key, extra.Namespace, extra.Session = id(from.Key), id(from.Namespace), id(from.Session)
		r.NewestTurn = max(r.NewestTurn, to.Turn)
	}
	return r
}

// Texts returns the texts of the table's records for the host functions.
func (t *Table) Texts() plan.Texts { return texts{t} }

// texts implements plan.Texts.
type texts struct{ *Table }

func (t texts) Text(record int) ([]byte, error) { return []byte(t.Records[record].Text), nil }

func (t texts) Tokens(text []byte, stop func() bool) int {
	n, _ := t.Count(string(text), stop)
	return n
}

func (t texts) Call(record, call int) (plan.Called, bool, error) {
	calls := t.Records[record].Calls
	if call >= len(calls) {
		return plan.Called{}, false, nil
	}
	return calls[call], true, nil
}

func (t texts) Score(text, query []byte) int { return t.Rate(string(text), string(query)) }

func (t texts) JSON(record int) ([]byte, bool, error) {
	r := &t.Records[record]
	if r.Kind == plan.KindAnswer {
		return []byte(r.Text), true, nil
	}
	return r.Spec, len(r.Spec) > 0, nil
}
