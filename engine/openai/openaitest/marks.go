package openaitest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Mark returns a text for a test's n-th message that a summary can mention.
func Mark(n int) string { return fmt.Sprintf("mark-%d.", n) }

// Marks returns the distinct numbers marked in a text, ascending. It also reads the output of Digest, in which "mark-3.
// to mark-5." means all from 3 to 5.
func Marks(text string) []int {
	var out []int
	for _, m := range regexp.MustCompile(`mark-(\d{1,7})\.(?: to mark-(\d{1,7})\.)?`).FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[1])
		last := first
		if m[2] != "" {
			last, _ = strconv.Atoi(m[2])
		}
		for n := first; n <= last; n++ {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// digest lists marks. Consecutive ones are given as ranges.
func digest(marks []int) string {
	var b strings.Builder
	b.WriteString("This was said:")
	for i := 0; i < len(marks); {
		j := i
		for j+1 < len(marks) && marks[j+1] == marks[j]+1 {
			j++
		}
		b.WriteString(" " + Mark(marks[i]))
		if j > i {
			b.WriteString(" to " + Mark(marks[j]))
		}
		i = j + 1
	}
	return b.String()
}

// extract returns a summary of at most limit bytes.
func extract(previous string, messages []Message, limit int) string {
	fresh := 0
	for _, m := range messages {
		fresh += len(m.Text) + 1
	}
	var b strings.Builder
	b.WriteString(beginning(previous, max(limit/2, limit-fresh)))
	share := (limit-b.Len())/max(len(messages), 1) - 1
	for _, m := range messages {
		b.WriteString("\n" + beginning(m.Text, share))
	}
	return strings.TrimSpace(b.String())
}

// beginning returns at most limit bytes of a text, cut between characters.
func beginning(text string, limit int) string {
	limit = min(max(limit, 0), len(text))
	for limit > 0 && limit < len(text) && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
