// Package mnemetest calls a policy from ordinary Go tests: the input is a request built from Go values, and the output
// the decoded plan. The bytes in between are those of the policy ABI, so what passes here also passes in a module.
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

	BudgetMessages   uint32 // 0 means no limit
	BudgetTokens     uint32 // 0 means no limit
	ViewerDelegation uint32
	ViewerAgent      string
	Now              int64 // ms since 1970
	Seed             uint64
	NewestTurn       uint32 // 0 means the highest turn of the records
	OlderExist       bool
	SummaryCovers    uint64 // Seq of the last message that the stored summary covers; 0 means that none is stored
	SummaryTokens    uint32
	OlderTokens      uint64
	MemoryBudget     uint32

	Hook   mneme.Hook // 0 means mneme.Assemble
	Origin mneme.Origin

	// CountTokens implements the host function tokens. Nil means one token for every four bytes, rounded up.
	CountTokens func(text string) int
	// Score implements the host function score. Nil means the share of the query's words that the text contains.
	Score func(text, query string) int
}

// Record is one message of a Table, identified by its index.
type Record struct {
	Turn             uint32
	Place            uint32 // 0 means Turn
	Seq              uint64
	Role             mneme.Role
	Kind             mneme.Kind
	Flags            mneme.Flags
	Tokens           uint32
	CompressedTokens uint32
	Text             string
	Calls            []CallOf // of an assistant; for a result, the one that it answers
	Atom             uint32
	Delegation       uint32
	Agent            string
	Tool             string
	Tags             []string
	Created          int64  // ms since 1970
	Memory           Memory // of the hooks other than Assemble
	Spec             string // in which the host function json looks: of a candidate, a memory or an answer; "" means none
}

// Memory is what the extra table has of a record.
type Memory struct {
	Key, Namespace, Session         string // the namespace as JSON
	Category                        mneme.Category
	Trust                           mneme.Trust
	Flags                           mneme.ExtraFlags
	Score, Recalls, Version, Group  uint32
	Occurred, Expires, LastRecalled int64 // ms since 1970; 0 means none
	Importance                      float32
}

// CallOf is one call of a record.
type CallOf struct{ Name, Arguments string }

// assembles reports whether the table is a window's.
func (t *Table) assembles() bool { return t.Hook == 0 || t.Hook == mneme.Assemble }

// long reports whether a host runs the table's hook in the large arenas.
func (t *Table) long() bool { return t.Hook == mneme.Remember || t.Hook == mneme.Retain }

// score implements the host function score.
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

// place returns the position of the record's turn among the living ones, which is Turn if nothing was rewound.
func (r *Record) place() uint32 {
	if r.Place == 0 {
		return r.Turn
	}
	return r.Place
}

// tokens implements the host function tokens.
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
