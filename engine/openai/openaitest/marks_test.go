package openaitest

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// Marks returns the marks that digest listed, whatever text surrounds them.
func TestDigestNamesItsMarks(t *testing.T) {
	for _, marks := range [][]int{nil, {0}, {1, 2}, {1, 2, 3, 9}, {4, 6, 8, 9, 10}} {
		if got := Marks(digest(marks)); fmt.Sprint(got) != fmt.Sprint(marks) {
			t.Errorf("%v became %q, read as %v", marks, digest(marks), got)
		}
	}
	if got := Marks("say mark-7. or mark-12. then mark-7. but not mark-3 or mark-."); fmt.Sprint(got) != "[7 12]" {
		t.Errorf("%v", got)
	}
}

func TestExtractIsBounded(t *testing.T) {
	long := strings.Repeat("slovo žluté ", 500)
	for _, c := range []struct {
		previous   string
		messages   []Message
		least, all int
	}{
		{"", []Message{{Text: "a b c"}}, 5, 5},
		{"", []Message{{Text: long}}, 95, 100},
		{long, []Message{{Text: long}, {Text: long}}, 90, 100},
		{long, []Message{{Text: "a b"}}, 95, 100},
		{"before", []Message{{Text: "a b"}}, 10, 10},
		{long, nil, 98, 100},
		{"", make([]Message, 300), 0, 0},
		{long, make([]Message, 300), 45, 100},
	} {
		got := extract(c.previous, c.messages, 100)
		if len(got) < c.least || len(got) > c.all || !utf8.ValidString(got) {
			t.Errorf("%d bytes, want %d to %d: %q", len(got), c.least, c.all, got)
		}
	}
}
