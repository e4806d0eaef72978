package mnemetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// CandidateOf returns the candidate of Admit, record 0 of its table, from its spec as JSON. Its text and tags are those of
// the spec. It panics if the spec is not a JSON object.
func CandidateOf(spec string, m Memory) Record { return recordOf(mneme.Candidate, spec, m) }

// MemoryOf returns a stored memory from its spec as JSON, like CandidateOf. If m has no key, it has the spec's.
func MemoryOf(spec string, m Memory) Record { return recordOf(mneme.Memory, spec, m) }

// QueryOf returns the query of Recall, record 0 of its table.
func QueryOf(text string) Record {
	return Record{Role: mneme.System, Kind: mneme.Query, Text: text}
}

func recordOf(kind mneme.Kind, spec string, m Memory) Record {
	var s struct {
		Key     string   `json:"key"`
		Content string   `json:"content"`
		Tags    []string `json:"tags"`
	}
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		panic(fmt.Sprintf("mnemetest: spec %s: %v", spec, err))
	}
	if m.Key == "" {
		m.Key = s.Key
	}
	return Record{Role: mneme.System, Kind: kind, Text: s.Content, Tags: s.Tags, Memory: m, Spec: spec}
}

// Converse runs a policy of Remember. If it asks a model, Converse calls model with the prompt and with the records that a
// host would send, and runs the policy again with the answer as the last record. It returns the results of all runs, one
// or two. A host sends messages of users and assistants outside delegations, and memories.
func Converse(policy mneme.Policy, t *Table, model func(prompt string, records []Record) string) ([]Result, error) {
	first, err := Run(policy, t)
	results := []Result{first}
	if err != nil || len(first.Ops) != 1 || first.Ops[0].Code != mneme.OpAsk {
		return results, err
	}
	ask := first.Ops[0]
	sent := slices.DeleteFunc(slices.Clone(t.Records[ask.First:ask.Last+1]), func(r Record) bool { return !r.sent() })
	answered := *t
	answer := model(strings.Clone(ask.Text), sent)
	answered.Records = append(slices.Clone(t.Records), Record{Role: mneme.System, Kind: mneme.Answer, Text: answer, Spec: answer})
	second, err := Run(policy, &answered)
	return append(results, second), err
}

// sent reports whether a host sends a record to a model.
func (r *Record) sent() bool {
	return r.Kind == mneme.Memory || r.Delegation == 0 && r.Kind == mneme.Chat && (r.Role == mneme.User || r.Role == mneme.Assistant)
}
