package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/memory"
)

// shown returns a memory as a model sees it.
func shown(m *memory.Memory) Shown {
	s := Shown{Key: m.Key, Namespace: m.Namespace, Content: m.Content, Category: m.Category, Tags: m.Tags,
		OccurredAt: m.OccurredAt, UpdatedAt: m.UpdatedAt, Trust: string(m.Trust)}
	if m.SessionID != nil {
		s.SessionID = *m.SessionID
	}
	return s
}

// clip cuts the content to at most max bytes, and subtracts them from room, which is shared by all contents.
func (s *Shown) clip(max int, room *int) {
	whole := len(s.Content)
	s.Content = clipped(s.Content, max)
	s.Cut = len(s.Content) < whole
	*room -= len(s.Content)
	if s.Tags == nil {
		s.Tags = []string{}
	}
}

// say writes the memory as one item of a list.
func (s *Shown) say(b *strings.Builder, number int) {
	fmt.Fprintf(b, "%d. %s (", number, s.Key)
	if len(s.Namespace) > 0 {
		fmt.Fprintf(b, "namespace: %s, ", strings.Join(s.Namespace, ", "))
	}
	fmt.Fprintf(b, "%s, ", s.Category)
	if s.Trust != "" {
		fmt.Fprintf(b, "trust: %s, ", s.Trust)
	}
	b.WriteString(s.UpdatedAt.Format("2006-01-02 15:04 UTC"))
	if s.OccurredAt != nil {
		fmt.Fprintf(b, ", of %s", s.OccurredAt.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if len(s.Tags) > 0 {
		fmt.Fprintf(b, ", tags: %s", strings.Join(s.Tags, ", "))
	}
	fmt.Fprintf(b, "): %s", s.Content)
	if s.Cut {
		b.WriteString(" … (cut here)")
	}
	b.WriteByte('\n')
}

// clipped returns the beginning of a text, at most max bytes, cut between characters.
func clipped(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}
