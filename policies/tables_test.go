package policies_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/policies/policytest"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// atom is the records from first to last, inclusive.
type atom struct {
	first, last int
	records     []mnemetest.Record
}

func (a atom) any(f func(mnemetest.Record) bool) bool { return slices.ContainsFunc(a.records, f) }

func (a atom) system() bool {
	return a.any(func(r mnemetest.Record) bool { return r.Role == mneme.System })
}

func (a atom) flagged(flags mneme.Flags) bool {
	return a.any(func(r mnemetest.Record) bool { return r.Flags.Has(flags) })
}

func (a atom) must() bool     { return a.flagged(mneme.Mandatory) }
func (a atom) pinned() bool   { return a.flagged(mneme.Pinned) }
func (a atom) stays() bool    { return a.system() || a.must() || a.pinned() }
func (a atom) question() bool { return !a.system() && a.flagged(mneme.Compressed) }

func atoms(t *mnemetest.Table) []atom {
	var all []atom
	for i, r := range t.Records {
		if n := len(all); n > 0 && t.Records[i-1].Atom == r.Atom {
			all[n-1].last = i
			all[n-1].records = t.Records[all[n-1].first : i+1]
		} else {
			all = append(all, atom{first: i, last: i, records: t.Records[i : i+1]})
		}
	}
	return all
}

// covered returns for each record the index of the op that names it, or -1. INSERT and LEDGER name no records.
func covered(t *mnemetest.Table, ops []mnemetest.Op) []int {
	by := slices.Repeat([]int{-1}, len(t.Records))
	for i, op := range ops {
		if op.Code != mneme.OpInsert && op.Code != mneme.OpLedger {
			for r := op.First; r <= op.Last; r++ {
				by[r] = i
			}
		}
	}
	return by
}

// run calls a policy twice with the same table and requires the same valid plan.
func run(t *testing.T, policy mneme.Policy, table *mnemetest.Table) []mnemetest.Op {
	t.Helper()
	result, err := mnemetest.Run(policy, table)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := mnemetest.Run(policy, table); err != nil || !slices.Equal(again.Plan, result.Plan) {
		t.Fatalf("the same request gave another plan: %v", err)
	}
	return result.Ops
}

// brief describes all ops but the LEDGER in a form for test tables: op, range, reason code.
func brief(ops []mnemetest.Op) []string {
	var out []string
	for _, op := range ops {
		if op.Code == mneme.OpLedger {
			continue
		}
		code := op.Reason
		for i := range code {
			if code[i] == ':' {
				code = code[:i]
				break
			}
		}
		switch op.Code {
		case mneme.OpDrop:
			out = append(out, fmt.Sprintf("drop %d..%d %s", op.First, op.Last, code))
		case mneme.OpCompress:
			out = append(out, fmt.Sprintf("compress %d..%d %s", op.First, op.Last, code))
		case mneme.OpInsert:
			out = append(out, fmt.Sprintf("insert %d %q", op.First, op.Text))
		case mneme.OpTruncate:
			out = append(out, fmt.Sprintf("truncate %d..%d %s %d", op.First, op.Last, code, op.Argument))
		case mneme.OpStub:
			out = append(out, fmt.Sprintf("stub %d..%d %s", op.First, op.Last, code))
		default:
			out = append(out, op.String())
		}
	}
	return out
}

// seeded checks a property of many random tables; a failure names its seed.
func seeded(t *testing.T, tables, turns int, property func(*testing.T, *mnemetest.Table, *rand.Rand)) {
	t.Helper()
	for seed := range uint64(tables) {
		rng := rand.New(rand.NewPCG(seed, 0))
		table := policytest.Random(rng, turns)
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { property(t, table, rng) }) {
			return
		}
	}
}

func (a atom) asks() bool {
	return a.any(func(r mnemetest.Record) bool { return r.Role == mneme.User })
}
