package tokens_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/message/tokens"
)

// FuzzMiddle checks that a shortened text fits and keeps whole characters of head and tail, and that a text that fits
// is not changed.
func FuzzMiddle(f *testing.F) {
	f.Add("", 0)
	f.Add("short", 100)
	f.Add(strings.Repeat("日本語 text ", 100), 50)
	f.Add(strings.Repeat("x", 10000), 31)
	f.Add(strings.Repeat("x", 100), 3)
	count := func(s string) int { return utf8.RuneCountInString(s) }
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 0 || limit > 1<<20 || !utf8.ValidString(text) {
			t.Skip()
		}
		got := tokens.Middle(text, limit, count)
		if count(text) <= limit {
			if got != text {
				t.Fatalf("a text that fits became %q", got)
			}
			return
		}
		if count(got) > limit || !utf8.ValidString(got) {
			t.Fatalf("%d tokens, at most %d: %q", count(got), limit, got)
		}
		if head, rest, ok := strings.Cut(got, "[… "); ok {
			var gone int
			if _, err := fmt.Sscanf(rest, "%d bytes left out …]", &gone); err != nil && !strings.Contains(text, "[… ") {
				t.Fatalf("the cut is not marked: %q", got)
			}
			if !strings.HasPrefix(text, head) {
				t.Fatalf("%q is not the head", head)
			}
		}
	})
}

// Truncating must not count a long text again and again.
func TestTruncateCostsItsLimit(t *testing.T) {
	counted := 0
	count := func(s string) int {
		counted += len(s)
		return len(s) / 4
	}
	got := tokens.Middle(strings.Repeat("word ", 1<<20), 100, count)
	if counted > 100*4*40 || len(got) < 350 {
		t.Errorf("counted %d bytes for %d", counted, len(got))
	}
}

// Shares are within the limit together, and none is more than a text needs. A text that does not get what it needs has no
// smaller share than another, but for what does not divide.
func TestShares(t *testing.T) {
	words := func(s string) int { return len(strings.Fields(s)) }
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		var texts []string
		for range 1 + r.IntN(6) {
			texts = append(texts, strings.Repeat("w ", r.IntN(40)*r.IntN(2)*r.IntN(20)))
		}
		limit := r.IntN(300)
		shares := tokens.Shares(texts, limit, words)
		total, most := 0, 0
		for i, share := range shares {
			total, most = total+share, max(most, share)
			if share > words(texts[i]) {
				t.Fatalf("%d of %d words", share, words(texts[i]))
			}
		}
		for i, share := range shares {
			if share < words(texts[i]) && (share < most-1 || total < limit) {
				t.Fatalf("limit %d, shares %v: text %d of %d words", limit, shares, i, words(texts[i]))
			}
		}
		if total > limit {
			t.Fatalf("limit %d, shares %v", limit, shares)
		}
	}
}
