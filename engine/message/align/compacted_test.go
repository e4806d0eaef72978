package align_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/seed-0906e6bc/mneme/engine/message/align"
)

// TestFindCompacted writes messages as letters. Capital letters are the model's messages and end turns.
func TestFindCompacted(t *testing.T) {
	for _, tc := range []struct {
		name, stored, request string
		compacted             bool
		want                  align.Match
	}{
		{"nothing is stored", "", "aB", true, align.Match{Case: align.None}},
		{"the newest answer behind a summary", "aBcD", "sDe", false,
			align.Match{Case: align.Tail, Keep: 4, New: 2, Front: 1}},
		{"an older answer", "aBcD", "sBe", false, align.Match{Case: align.None}},
		{"the newest message is the user's", "aBcDe", "seF", false, align.Match{Case: align.None}},
		{"nothing is new", "aBcD", "sD", false, align.Match{Case: align.None}},
		{"nothing is in front", "aBcD", "De", false, align.Match{Case: align.None}},
		{"the request again", "aBcDeF", "sDe", false, align.Match{Case: align.Rewind, Keep: 5, New: 3, Front: 1}},
		{"one message is too little for that", "aBcDeF", "sGe", false, align.Match{Case: align.None}},
		{"the user's messages, a summary, and what is new", "aBcDeF", "acesg", true,
			align.Match{Case: align.Tail, Keep: 6, New: 3, Front: 3}},
		{"without saying so", "aBcDeF", "acesg", false, align.Match{Case: align.None}},
		{"a summary and a question, both said again", "aBscDeF", "acesc", true,
			align.Match{Case: align.Tail, Keep: 7, New: 3, Front: 3}},
		{"a turn without its beginning", "aBcdeF", "sde", false, align.Match{Case: align.None}},
		{"one that the user says again", "aBcDeF", "acesc", true, align.Match{Case: align.Tail, Keep: 6, New: 3, Front: 3}},
		{"in another order", "xaBcDeF", "acxesg", true, align.Match{Case: align.Tail, Keep: 7, New: 4, Front: 4}},
		{"none of them", "aBcD", "xsg", true, align.Match{Case: align.None}},
		{"all of them", "aBcD", "ac", true, align.Match{Case: align.None}},
	} {
		s := &stored{messages: letters(tc.stored)}
		large := func(i int) bool { return tc.request[i] < 'a' }
		last := strings.LastIndexFunc(tc.stored, unicode.IsUpper)
		newest := 1 + strings.LastIndexFunc(tc.stored[:max(0, last)], unicode.IsUpper)
		if got := align.FindCompacted(s, newest, letters(tc.request), large, tc.compacted); got != tc.want {
			t.Errorf("%s: %+v, wanted %+v", tc.name, got, tc.want)
		}
	}
}

func letters(s string) []align.Hash {
	out := make([]align.Hash, len(s))
	for i := range s {
		out[i][0] = s[i]
	}
	return out
}

// TestCompactedRewinds checks that a rewind is the longest run that ends the request, ends before the newest message
// and covers its turn from the beginning.
func TestCompactedRewinds(t *testing.T) {
	random, seen := rand.New(rand.NewPCG(1, 2)), 0
	for range 50_000 {
		s, m := make([]align.Hash, 2+random.IntN(8)), make([]align.Hash, 1+random.IntN(6))
		for _, hashes := range [][]align.Hash{s, m} {
			for i := range hashes {
				hashes[i][0] = byte(random.IntN(3))
			}
		}
		nobody := func(int) bool { return false }
		newest := random.IntN(len(s))
		got := align.FindCompacted(&stored{messages: s}, newest, m, nobody, false)
		want := align.Match{Case: align.None}
		for length := 2; length <= len(m); length++ {
			for end := max(length, newest+1); end < len(s) && end-newest <= length; end++ {
				if slices.Equal(s[end-length:end], m[len(m)-length:]) {
					want = align.Match{Case: align.Rewind, Keep: end, New: len(m), Front: len(m) - length}
				}
			}
		}
		if got != want {
			t.Fatalf("stored %v request %v: %+v, wanted %+v", s, m, got, want)
		}
		if got.Case == align.Rewind {
			seen++
		}
	}
	if seen == 0 {
		t.Error("no request was a rewind")
	}
}
