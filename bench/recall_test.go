package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestLanguage checks that words are as uneven as Zipf's law says, that texts have the length that docs/BENCHMARKS.md
// names, and that a mistyped word is not in the language.
func TestLanguage(t *testing.T) {
	l := newLanguage(1)
	if again := newLanguage(2); !slices.Equal(l.words, again.words) {
		t.Error("the words differ from seed to seed")
	}
	const n = 200_000
	counts := map[string]int{}
	for range n {
		counts[l.word()]++
	}
	for _, at := range []int{0, 9, 99} { // the sum of 1/n up to 37,000 is 11.1
		want := n / 11.1 / float64(at+1)
		if got := float64(counts[l.words[at]]); got < .8*want || got > 1.2*want {
			t.Errorf("word %d occurs %.0f times, want about %.0f", at+1, got, want)
		}
	}
	for range 100 {
		if text := l.text(); len(text) < 199 || len(text) > 220 {
			t.Errorf("a text has %d characters", len(text))
		}
		if w := l.mistyped(); slices.Contains(l.words, w) {
			t.Errorf("%s is spelled right", w)
		}
	}
}

// TestMemoryFile checks that each line of a file to import is JSON, with all memories and the end.
func TestMemoryFile(t *testing.T) {
	lines := bytes.Split(bytes.TrimSpace(memoryFile([]string{"one", "two"})), []byte("\n"))
	for _, line := range lines {
		if !json.Valid(line) {
			t.Errorf("%s is no JSON", line)
		}
	}
	if len(lines) != 5 || !strings.Contains(string(lines[4]), `"memory":2`) {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
}
