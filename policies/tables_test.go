package policies_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	mneme "github.com/seed-0906e6bc/mneme/sdk/go"
	"github.com/seed-0906e6bc/mneme/sdk/go/mnemetest"
)

// talk builds tables the way sessions grow.
type talk struct{ mnemetest.Table }

// say adds one message that is an atom of its own.
func (s *talk) say(turn uint32, role mneme.Role, tokens uint32) *talk {
	s.add(mnemetest.Record{Turn: turn, Role: role, Tokens: tokens}, true)
	return s
}

// call adds an assistant's call and its results: one atom.
func (s *talk) call(turn uint32, results int, tokens uint32) *talk {
	s.add(mnemetest.Record{Turn: turn, Role: mneme.Assistant, Kind: mneme.Call, Tokens: tokens}, true)
	for range results {
		s.add(mnemetest.Record{Turn: turn, Role: mneme.Tool, Kind: mneme.Result, Tokens: tokens, Tool: "get"}, false)
	}
	return s
}

// system adds a system-class record.
func (s *talk) system(kind mneme.Kind, tokens uint32) *talk {
	s.add(mnemetest.Record{Role: mneme.System, Kind: kind, Tokens: tokens}, true)
	return s
}

// marked sets flags on the newest atom.
func (s *talk) marked(flags mneme.Flags) *talk {
	for i := len(s.Records) - 1; i >= 0 && s.Records[i].Atom == s.Records[len(s.Records)-1].Atom; i-- {
		s.Records[i].Flags |= flags
	}
	return s
}

func (s *talk) add(r mnemetest.Record, newAtom bool) {
	if n := len(s.Records); n > 0 {
		r.Atom = s.Records[n-1].Atom
	}
	if newAtom {
		r.Atom++
	}
	if r.Role != mneme.System {
		for i := range s.Records {
			r.Seq = max(r.Seq, s.Records[i].Seq)
		}
		r.Seq++
	}
	s.Records = append(s.Records, r)
}

// turns adds whole turns of one question and one answer, ten tokens each.
func (s *talk) turns(from, to uint32) *talk {
	for n := from; n <= to; n++ {
		s.say(n, mneme.User, 10).say(n, mneme.Assistant, 10)
	}
	return s
}

// random is a table such as a host may send, odd ones among them: no records, no questions, all mandatory, free of
// charge, turns left out.
func random(rng *rand.Rand, turns int) *mnemetest.Table {
	var s talk
	often := func(percent int) bool { return rng.IntN(100) < percent }
	mandatory := []int{0, 0, 5, 20, 100}[rng.IntN(5)]
	cost := uint32([]int{1, 20, 300}[rng.IntN(3)])
	turn := uint32(rng.IntN(3))
	for range rng.IntN(turns + 1) {
		turn += 1 + uint32(rng.IntN(8)/7)
		for range 1 + rng.IntN(5) {
			switch rng.IntN(6) {
			case 0, 1:
				s.say(turn, mneme.User, rng.Uint32N(cost))
			case 2, 3:
				s.say(turn, mneme.Assistant, rng.Uint32N(cost))
			case 4:
				s.call(turn, rng.IntN(4), rng.Uint32N(cost))
			case 5:
				s.system(mneme.Summary, rng.Uint32N(cost))
				continue
			}
			if often(mandatory) {
				s.Records[len(s.Records)-1].Flags |= mneme.Mandatory
			}
			if often(5) {
				s.marked(mneme.Compressed)
			}
			delegation := uint32(rng.IntN(3))
			for i := range s.Records {
				if s.Records[i].Atom == s.Records[len(s.Records)-1].Atom {
					s.Records[i].Delegation = delegation
				}
			}
		}
	}
	s.ViewerDelegation = uint32(rng.IntN(3))
	s.OlderExist = often(50)
	if often(70) {
		s.BudgetMessages = uint32(rng.IntN(len(s.Records) + 2))
	}
	if often(70) {
		s.BudgetTokens = rng.Uint32N(cost*uint32(len(s.Records)+1) + 1)
	}
	s.Config = map[string]any{}
	if often(50) {
		s.Config["marker"] = often(70)
	}
	return &s.Table
}

// atom is the records first to last, inclusive.
type atom struct {
	first, last int
	records     []mnemetest.Record
}

func (a atom) any(f func(mnemetest.Record) bool) bool { return slices.ContainsFunc(a.records, f) }

func (a atom) system() bool {
	return a.any(func(r mnemetest.Record) bool { return r.Role == mneme.System })
}

func (a atom) stays() bool {
	return a.system() || a.any(func(r mnemetest.Record) bool { return r.Flags.Has(mneme.Mandatory) })
}

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

// covered says by which op each record is named, -1 for none. INSERT names none.
func covered(t *mnemetest.Table, ops []mnemetest.Op) []int {
	by := slices.Repeat([]int{-1}, len(t.Records))
	for i, op := range ops {
		if op.Code != mneme.OpInsert {
			for r := op.First; r <= op.Last; r++ {
				by[r] = i
			}
		}
	}
	return by
}

// run calls a policy twice with the same table, whose plan must be legal and the same.
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

// brief writes ops so that a test table can hold them: op, range, code of the reason.
func brief(ops []mnemetest.Op) []string {
	var out []string
	for _, op := range ops {
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
		default:
			out = append(out, op.String())
		}
	}
	return out
}

// seeded runs a property on many random tables; a failure names its seed.
func seeded(t *testing.T, tables, turns int, property func(*testing.T, *mnemetest.Table, *rand.Rand)) {
	t.Helper()
	for seed := range uint64(tables) {
		rng := rand.New(rand.NewPCG(seed, 0))
		table := random(rng, turns)
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { property(t, table, rng) }) {
			return
		}
	}
}

func (a atom) asks() bool {
	return a.any(func(r mnemetest.Record) bool { return r.Role == mneme.User })
}
