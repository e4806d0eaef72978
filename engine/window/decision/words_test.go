package decision

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestStepWordsAreBounded: however much the steps say, a decision keeps a bounded part of it: the first lines, and of
// each detail the beginning.
func TestStepWordsAreBounded(t *testing.T) {
	var steps []Step
	total := 0
	for range 16 {
		s := Step{Detail: strings.Repeat("ä", 2000)}
		for range 4 {
			s.Log = append(s.Log, LogLine{"info", strings.Repeat("x", 1000)})
		}
		s.Limit(steps)
		steps = append(steps, s)
		total += s.words()
		if !utf8.ValidString(s.Detail) || len(s.Detail) < leastDetail-1 {
			t.Errorf("a detail of %d bytes", len(s.Detail))
		}
	}
	if len(steps[0].Log) != 4 || len(steps[15].Log) != 0 {
		t.Errorf("%d and %d lines are kept of the first and the last step", len(steps[0].Log), len(steps[15].Log))
	}
	if most := wordsRoom + 16*(leastDetail+4); total > most {
		t.Errorf("%d bytes of words, at most %d are meant", total, most)
	}
	quiet := Step{Detail: "one", Log: []LogLine{{"info", "two"}}}
	quiet.Limit(nil)
	if quiet.Detail != "one" || len(quiet.Log) != 1 {
		t.Errorf("%+v", quiet)
	}
}
