package tokens_test

import (
	"fmt"
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
