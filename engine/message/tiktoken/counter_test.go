package tiktoken

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// Counts from the tokenizers' own documentation and from encoding by hand.
func TestKnownCounts(t *testing.T) {
	for _, test := range []struct {
		text string
		want [2]uint32
	}{
		{"", [2]uint32{0, 0}},
		{"hello world", [2]uint32{2, 2}},
		{"tiktoken is great!", [2]uint32{6, 6}},
		{"antidisestablishmentarianism", [2]uint32{6, 6}},
		{"<|endoftext|>", [2]uint32{7, 7}}, // ordinary text, never the special token
		{"123456", [2]uint32{2, 2}},
	} {
		got, _, err := counter().CountBehind(t.Context(), "", test.text)
		if err != nil || got != test.want {
			t.Errorf("%q: %d (%v), want %d", test.text, got, err, test.want)
		}
		for i, name := range names {
			if got := counter().Count(name, test.text); uint32(got) != test.want[i] {
				t.Errorf("%q in %s: %d, want %d", test.text, name, got, test.want[i])
			}
		}
	}
}

// A text after a prefix counts like the two in one text.
func TestCountBehind(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 0))
	for _, class := range classesOfText {
		for range 100 {
			holdBehind(t, "): ", class.of(r))
			holdBehind(t, class.of(r), class.of(r))
		}
	}
}

// A count ends soon after it is told to stop, whether the text is many pieces or one, and reports that it is
// incomplete.
func TestStop(t *testing.T) {
	for _, text := range []string{strings.Repeat("a b ", 1<<18), strings.Repeat("ab", 1<<19), strings.Repeat(" ", 1<<19)} {
		for _, name := range names {
			asked := 0
			n, whole := counter().CountUntil(name, text, func() bool { asked++; return asked == 3 })
			if whole || asked != 3 || n == 0 || n > len(text)/4 {
				t.Errorf("%.8q: a count of %d, whole: %v, was asked %d times to stop", text, n, whole, asked)
			}
			asked = 0
			n, whole = counter().CountUntil(name, text, func() bool { asked++; return false })
			if want := counter().Count(name, text); !whole || n != want || asked < len(text)/chunk/2 {
				t.Errorf("%.8q: a count of %d, want %d, whole: %v, was asked %d times", text, n, want, whole, asked)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := counter().CountBehind(ctx, "): ", text); !errors.Is(err, context.Canceled) {
			t.Errorf("%.8q: %v", text, err)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	text := strings.Repeat("some words, 12 of them; unfrobnicated; ", 200)
	want, _, err := counter().CountBehind(t.Context(), "", text)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if got, _, err := counter().CountBehind(t.Context(), "", text); got != want || err != nil {
					t.Errorf("%d (%v), want %d", got, err, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestUnknownEncoding(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an unknown encoding counts")
		}
	}()
	counter().Count("p50k_base", "text")
}
