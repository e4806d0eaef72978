package memory

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// complete refuses what cannot be a memory, and fills in what was left out.
func (s *Spec) complete() error {
	if s.Key != "" {
		if err := ident.CheckID("key", s.Key); err != nil {
			return err
		}
	}
	if s.SessionID != "" {
		if err := ident.CheckID("session_id", s.SessionID); err != nil {
			return err
		}
	}
	switch {
	case len(s.Content) > MaxMemoryContent:
		return fault.Errorf(fault.TooLarge, "content_too_large", "content: has %d bytes, a memory may have %d; store it in pieces, "+
			"under keys of their own", len(s.Content), MaxMemoryContent)
	case !visible(s.Content):
		return fault.InvalidField("content", "blank", "must say something: there is no visible character in it")
	case !utf8.ValidString(s.Content):
		return fault.InvalidField("content", "invalid_utf8", "must be valid UTF-8")
	case s.Importance != nil && !(*s.Importance >= 0 && *s.Importance <= 1):
		return fault.InvalidField("importance", "out_of_range", "must be from 0 to 1")
	case len(s.Source) > maxMemorySource || !printable(s.Source):
		return fault.InvalidField("source", "invalid_value", "must be at most %d bytes without control characters", maxMemorySource)
	}
	if s.Category == "" {
		s.Category = categoryCore
	}
	if err := checkCategory(s.Category); err != nil {
		return err
	}
	if s.Category == categoryCore && s.ExpiresAt != nil {
		return fault.InvalidField("expires_at", "core_never_expires", "a core memory never expires; leave it out, or store a daily one")
	}
	if s.Category == CategoryConversation && s.SessionID == "" {
		s.SessionID = ident.DefaultSession
	}
	return s.completeTags()
}

func checkCategory(category string) error {
	if !slices.Contains(categories, category) {
		return fault.InvalidField("category", "invalid_value", "must be %s or %s", strings.Join(categories[:2], ", "),
			categories[2])
	}
	return nil
}

// completeTags holds tags against their limits and drops repeated ones.
func (s *Spec) completeTags() error {
	if len(s.Tags) > maxMemoryTags {
		return fault.InvalidField("tags", "too_many", "there are %d, a memory may have %d", len(s.Tags), maxMemoryTags)
	}
	tags := make([]string, 0, len(s.Tags))
	for _, tag := range s.Tags {
		if len(tag) > maxMemoryTag || !visible(tag) || !printable(tag) {
			return fault.InvalidField("tags", "invalid_value", "each must be 1 to %d bytes without control characters, not blank",
				maxMemoryTag)
		}
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	s.Tags = tags
	return nil
}

// visible tells whether a text has a character to see: no spaces, no marks alone, nothing of zero width.
func visible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		switch r {
		case '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0': // letters and symbols that draw nothing
			return false
		}
		return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
	})
}

// printable tells whether a short text is valid and free of control characters.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
