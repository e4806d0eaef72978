// Package policytest makes tables for testing the built-in policies: tables of growing sessions, and random ones.
package policytest

import (
	"math/rand/v2"

	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
	"github.com/seed-0906e6bc/mneme/sdk/policy/go/mnemetest"
)

// Talk builds tables in the way that sessions grow.
type Talk struct{ mnemetest.Table }

// Say adds one message that is an atom of its own.
func (s *Talk) Say(turn uint32, role mneme.Role, tokens uint32) *Talk {
	s.add(mnemetest.Record{Turn: turn, Role: role, Tokens: tokens}, true)
	return s
}

// Call adds an assistant's call and its results as one atom.
func (s *Talk) Call(turn uint32, results int, tokens uint32) *Talk {
	s.add(mnemetest.Record{Turn: turn, Role: mneme.Assistant, Kind: mneme.Call, Tokens: tokens}, true)
	for range results {
		s.add(mnemetest.Record{Turn: turn, Role: mneme.Tool, Kind: mneme.Result, Tokens: tokens, Tool: "get"}, false)
	}
	return s
}

// System adds a system-class record.
func (s *Talk) System(kind mneme.Kind, tokens uint32) *Talk {
	s.add(mnemetest.Record{Role: mneme.System, Kind: kind, Tokens: tokens}, true)
	return s
}

// Marked sets flags on the newest atom.
func (s *Talk) Marked(flags mneme.Flags) *Talk {
	for i := len(s.Records) - 1; i >= 0 && s.Records[i].Atom == s.Records[len(s.Records)-1].Atom; i-- {
		s.Records[i].Flags |= flags
	}
	return s
}

func (s *Talk) add(r mnemetest.Record, newAtom bool) {
	if n := len(s.Records); n > 0 {
		r.Atom = s.Records[n-1].Atom
	}
	if newAtom {
		r.Atom++
	}
	if r.Role != mneme.System {
		r.Seq = s.newest() + 1
	}
	s.Records = append(s.Records, r)
}

// Turns adds whole turns of one question and one answer, ten tokens each.
func (s *Talk) Turns(from, to uint32) *Talk {
	for n := from; n <= to; n++ {
		s.Say(n, mneme.User, 10).Say(n, mneme.Assistant, 10)
	}
	return s
}

// Random returns a table that a host might send, including odd ones: without records, without questions, with only
// mandatory records, with records that cost nothing, with turns missing.
func Random(rng *rand.Rand, turns int) *mnemetest.Table {
	var s Talk
	often := func(percent int) bool { return rng.IntN(100) < percent }
	mandatory := []int{0, 0, 5, 20, 100}[rng.IntN(5)]
	cost := uint32([]int{1, 20, 300}[rng.IntN(3)])
	turn := uint32(rng.IntN(3))
	for range rng.IntN(turns + 1) {
		turn += 1 + uint32(rng.IntN(8)/7)
		for range 1 + rng.IntN(5) {
			switch rng.IntN(6) {
			case 0, 1:
				s.Say(turn, mneme.User, rng.Uint32N(cost))
			case 2, 3:
				s.Say(turn, mneme.Assistant, rng.Uint32N(cost))
			case 4:
				s.Call(turn, rng.IntN(4), rng.Uint32N(cost))
			case 5:
				s.System([]mneme.Kind{mneme.Summary, mneme.Memory, mneme.Marker}[rng.IntN(3)], rng.Uint32N(cost))
				continue
			}
			if often(mandatory) {
				s.Records[len(s.Records)-1].Flags |= mneme.Mandatory
			}
			if often(10) {
				s.Marked(mneme.Compressed)
			} else if often(4) {
				s.Marked(mneme.Pinned)
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
	s.age(rng)
	if often(60) {
		s.SummaryCovers, s.SummaryTokens = rng.Uint64N(s.newest()+3), rng.Uint32N(cost)
	}
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

// age turns a table into that of a longer session: with results that came late or never, messages before the table, and
// a pending turn. In some, the assistant thinks.
func (s *Talk) age(rng *rand.Rand) {
	head, thinks := 0, rng.IntN(3) == 0
	for i := range s.Records {
		r := &s.Records[i]
		if thinks && r.Role == mneme.Assistant && rng.IntN(2) == 0 {
			r.Flags |= mneme.Thinking
		}
		if i == 0 || r.Atom != s.Records[i-1].Atom {
			head = i
		}
		if r.Role != mneme.Tool {
			continue
		}
		switch rng.IntN(10) {
		case 0:
			s.Late(i, r.Seq+rng.Uint64N(6))
		case 1:
			r.Seq = s.Records[head].Seq // made up by the host
		}
	}
	if n := len(s.Records); n > 0 && s.Records[head].Kind == mneme.Call && rng.IntN(2) == 0 {
		s.Records[head].Flags |= mneme.OpenCall
	}
	before := uint64(0)
	if s.OlderExist {
		before = rng.Uint64N(60)
	}
	pending := s.newest() + before + 1
	if rng.IntN(2) == 0 {
		pending -= min(rng.Uint64N(4), pending-1)
	}
	for i := range s.Records {
		if r := &s.Records[i]; r.Role != mneme.System {
			if r.Seq += before; r.Seq >= pending {
				r.Flags |= mneme.Pending
			}
		}
	}
}

// Late gives the result at an index the message number seq, or the last number if there are fewer messages.
func (s *Talk) Late(at int, seq uint64) {
	was := s.Records[at].Seq
	seq = min(seq, s.newest())
	for i := range s.Records {
		if r := &s.Records[i]; r.Seq > was && r.Seq <= seq {
			r.Seq--
		}
	}
	s.Records[at].Seq = seq
}

func (s *Talk) newest() uint64 {
	newest := uint64(0)
	for i := range s.Records {
		newest = max(newest, s.Records[i].Seq)
	}
	return newest
}
