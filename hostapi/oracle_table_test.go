package hostapi_test

import (
	"cmp"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// tableOf returns a call's request as a table of the guest SDK's test kit.
func tableOf(t testing.TB, call plan.Call) *mnemetest.Table {
	t.Helper()
	r := call.Request
	table := &mnemetest.Table{
		Config: map[string]any{}, BudgetMessages: r.BudgetMessages, BudgetTokens: r.BudgetTokens,
		ViewerDelegation: r.ViewerDelegation, ViewerAgent: r.Strings[r.ViewerAgent], Now: r.Now, Seed: r.Seed,
		NewestTurn: r.NewestTurn, OlderExist: r.OlderExist,
		SummaryCovers: r.SummaryCovers, SummaryTokens: r.SummaryTokens,
		OlderTokens: r.OlderTokens, MemoryBudget: r.MemoryBudget,
		Score:       func(text, query string) int { return call.Texts.Score([]byte(text), []byte(query)) },
		CountTokens: func(text string) int { return call.Texts.Tokens([]byte(text), func() bool { return false }) },
	}
	for _, c := range r.Config {
		table.Config[c.Key] = c.Value
	}
	for i, rec := range r.Records {
		text, err := call.Texts.Text(i)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) != int(rec.TextBytes) {
			t.Fatalf("record %d (%+v) says that its text has %d bytes, it has %d: %q",
				i, rec, rec.TextBytes, len(text), text)
		}
		var tags []string
		for _, id := range r.Tags[rec.TagsAt : rec.TagsAt+rec.TagCount] {
			tags = append(tags, r.Strings[id])
		}
		table.Records = append(table.Records, mnemetest.Record{
			Turn: rec.Turn, Place: rec.Place, Seq: rec.Seq, Atom: rec.Atom, Created: rec.Created,
			Role: mneme.Role(rec.Role), Kind: mneme.Kind(rec.Kind), Flags: mneme.Flags(rec.Flags),
			Tokens: rec.Tokens, CompressedTokens: rec.CompressedTokens, Text: string(text), Tags: tags,
			Delegation: rec.Delegation, Agent: r.Strings[rec.Agent], Tool: r.Strings[rec.Tool],
		})
	}
	return table
}

// callOf returns the engine's call for a table.
func callOf(module plan.Digest, table *mnemetest.Table) plan.Call {
	r := &plan.Request{
		Strings: []string{""}, BudgetMessages: table.BudgetMessages, BudgetTokens: table.BudgetTokens,
		ViewerDelegation: table.ViewerDelegation, Now: table.Now, Seed: table.Seed, NewestTurn: table.NewestTurn,
		OlderExist: table.OlderExist, SummaryCovers: table.SummaryCovers, SummaryTokens: table.SummaryTokens,
		OlderTokens: table.OlderTokens, MemoryBudget: table.MemoryBudget,
	}
	ids := map[string]uint32{"": 0}
	id := func(s string) uint32 {
		if _, ok := ids[s]; !ok {
			ids[s] = uint32(len(r.Strings))
			r.Strings = append(r.Strings, s)
		}
		return ids[s]
	}
	for key, value := range table.Config {
		if n, ok := value.(int); ok {
			value = int64(n)
		}
		r.Config = append(r.Config, plan.ConfigEntry{Key: key, Value: value})
	}
	var texts tableTexts
	for _, rec := range table.Records {
		to := plan.Record{
			Turn: rec.Turn, Place: cmp.Or(rec.Place, rec.Turn), Seq: rec.Seq, Atom: rec.Atom, Created: rec.Created,
			Role: plan.Role(rec.Role), Kind: plan.Kind(rec.Kind), Flags: plan.Flags(rec.Flags),
			Tokens: rec.Tokens, CompressedTokens: rec.CompressedTokens, TextBytes: uint32(len(rec.Text)),
			Delegation: rec.Delegation, Agent: id(rec.Agent), Tool: id(rec.Tool),
			TagsAt: uint32(len(r.Tags)), TagCount: uint32(len(rec.Tags)),
		}
		for _, tag := range rec.Tags {
			r.Tags = append(r.Tags, id(tag))
		}
		if table.NewestTurn == 0 {
			r.NewestTurn = max(r.NewestTurn, rec.Turn)
		}
		r.Records, texts = append(r.Records, to), append(texts, rec.Text)
	}
	r.ViewerAgent = id(table.ViewerAgent)
	return plan.Call{Module: module, Request: r, Texts: texts}
}

// tableTexts implements the texts of a table. A token is up to three bytes.
type tableTexts []string

func (t tableTexts) Text(record int) ([]byte, error)          { return []byte(t[record]), nil }
func (t tableTexts) Call(int, int) (plan.Called, bool, error) { return plan.Called{}, false, nil }
func (t tableTexts) JSON(int) ([]byte, bool, error)           { return nil, false, nil }
func (t tableTexts) Score(text, query []byte) int             { return len(text) % (len(query) + 1) }
func (t tableTexts) Tokens(text []byte, _ func() bool) int {
	return (len(text) + 2) / 3
}
