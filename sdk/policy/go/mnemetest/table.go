// Package mnemetest calls a policy from ordinary Go tests: a request built from Go values goes in, the decoded plan
// comes out. The bytes in between are those of the policy ABI, so what passes here passes in a module.
package mnemetest

import (
	"slices"
	"strings"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

// Table is a request in Go values.
type Table struct {
	Records []Record
	Config  map[string]any // values are int, int64, float64, bool or string

	BudgetMessages   uint32 // 0: no bound
	BudgetTokens     uint32 // 0: no bound
	ViewerDelegation uint32
	ViewerAgent      string
	Now              int64 // ms since 1970
	Seed             uint64
	NewestTurn       uint32 // 0: the highest turn of the records
	OlderExist       bool
	SummaryCovers    uint64 // Seq of the last message that the stored summary covers; 0: none is stored
	SummaryTokens    uint32
	OlderTokens      uint64
	MemoryBudget     uint32

	// CountTokens answers the host function tokens. Nil: one token for each four bytes begun.
	CountTokens func(text string) int
	// Score answers the host function of that name. Nil: the share of the query's words that the text holds.
	Score func(text, query string) int
}

// Record is one message of a Table. Its index is its place.
type Record struct {
	Turn             uint32
	Place            uint32 // 0: Turn
	Seq              uint64
	Role             mneme.Role
	Kind             mneme.Kind
	Flags            mneme.Flags
	Tokens           uint32
	CompressedTokens uint32
	Text             string
	Calls            []CallOf // of an assistant; of a result, the one that it answers
	Atom             uint32
	Delegation       uint32
	Agent            string
	Tool             string
	Tags             []string
	Created          int64 // ms since 1970
}

// CallOf is one call of a record.
type CallOf struct{ Name, Arguments string }

// score answers the host function of that name.
func (t *Table) score(text, query string) int {
	if t.Score != nil {
		return t.Score(text, query)
	}
	held := strings.Fields(strings.ToLower(text))
	words, found := strings.Fields(strings.ToLower(query)), 0
	for _, w := range words {
		if slices.Contains(held, w) {
			found++
		}
	}
	return mneme.MaxScore * found / max(len(words), 1)
}

// place is the record's place among the turns that live, which is Turn where nothing was rewound.
func (r *Record) place() uint32 {
	if r.Place == 0 {
		return r.Turn
	}
	return r.Place
}

// tokens answers the host function of that name.
func (t *Table) tokens(text string) int {
	if t.CountTokens != nil {
		return t.CountTokens(text)
	}
	return (len(text) + 3) / 4
}

func (t *Table) newestTurn() uint32 {
	newest := t.NewestTurn
	if newest == 0 {
		for i := range t.Records {
			newest = max(newest, t.Records[i].Turn)
		}
	}
	return newest
}
