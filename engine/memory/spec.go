package memory

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
)

// Categories of memories.
const (
	core         = "core"         // permanent facts: they never expire
	Daily        = "daily"        // notes that expire after the days of the setting daily_memory_days
	Conversation = "conversation" // context of a session; they outlive the session
)

var categories = []string{core, Daily, Conversation}

// Categories returns the categories.
func Categories() []string { return slices.Clone(categories) }

// RankCategories maps the categories to those of the index.
var RankCategories = map[string]rank.Category{core: rank.Core, Daily: rank.Daily, Conversation: rank.Conversation}

// The limits of one memory.
const (
	maxContent = 1 << 20 // bytes
	maxTags    = 64
	maxTag     = 128 // bytes
	maxSource  = 256 // bytes
	maxFuture  = 100 * 366 * 24 * time.Hour
)

// defaultImportance is the importance of memories that name none.
const defaultImportance = 0.5

// Spec is a memory to be stored. It has a content, a value or both. Without a key a key is generated; without a
// category it is core. A conversation memory without a session belongs to `dashboard`.
//
// An invalid memory is rejected as content_too_large, or as invalid with the field and one of the codes blank,
// invalid_utf8, out_of_range, invalid_value, too_many, core_never_expires and those of ids; trust_too_high and source_not_found come
// from storing it.
type Spec struct {
	Key        string     `json:"key,omitempty"`
	Namespace  []string   `json:"namespace,omitempty"`
	Content    string     `json:"content"`
	Category   string     `json:"category,omitempty"`
	Tags       []string   `json:"tags,omitempty"`
	Source     string     `json:"source,omitempty"`
	SessionID  string     `json:"session_id,omitempty"`
	Importance *float64   `json:"importance,omitempty"` // 0 to 1
	ExpiresAt  *time.Time `json:"expires_at,omitempty" day:"end"`
	OccurredAt *time.Time `json:"occurred_at,omitempty"`
	// Metadata is flat: strings, numbers and booleans, by name.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	Value    json.RawMessage            `json:"value,omitempty"`
	// Trust may ask for less than the memory would get. A tenant_admin may ask for more.
	Trust Trust `json:"trust,omitempty"`
	// Sources are messages that the memory is from. What a user says in one of them, word for word, is trusted as theirs.
	Sources  []Source `json:"sources,omitempty"`
	Pinned   bool     `json:"pinned,omitempty"`
	Standing bool     `json:"standing,omitempty"`
	Origin   Origin   `json:"-"` // empty: OriginAPI
	// Created and Updated are when another program wrote the memory that is imported; zero means now. A time in the
	// future is now, and a version is never older than the one before.
	Created, Updated time.Time `json:"-"`
}

// complete checks the spec, and fills in defaults.
func (s *Spec) complete() error {
	if s.Key != "" {
		if err := ident.CheckID("key", s.Key); err != nil {
			return err
		}
	}
	if err := ident.CheckNamespace("namespace", s.Namespace); err != nil {
		return err
	}
	if s.SessionID != "" {
		if err := ident.CheckID("session_id", s.SessionID); err != nil {
			return err
		}
	}
	if err := s.completeExtra(); err != nil {
		return err
	}
	if _, err := ParseTrust("trust", string(s.Trust)); err != nil {
		return err
	}
	if err := checkSources(s.Sources); err != nil {
		return err
	}
	switch {
	case len(s.Content) > maxContent:
		return fault.Errorf(fault.TooLarge, "content_too_large",
			"content: has %d bytes, and the limit is %d; split it into memories with their own keys",
			len(s.Content), maxContent)
	case !visible(s.Content):
		return fault.InvalidField("content", "blank", "must have a visible character")
	case !utf8.ValidString(s.Content):
		return fault.InvalidField("content", "invalid_utf8", "must be valid UTF-8")
	case s.Importance != nil && !(*s.Importance >= 0 && *s.Importance <= 1):
		return fault.InvalidField("importance", "out_of_range", "must be from 0 to 1")
	case len(s.Source) > maxSource || !printable(s.Source):
		return fault.InvalidField("source", "invalid_value", "must be at most %d bytes without control characters",
			maxSource)
	}
	if s.Category == "" {
		s.Category = core
	}
	if err := checkCategory("category", s.Category); err != nil {
		return err
	}
	if s.Category == core && s.ExpiresAt != nil {
		return fault.InvalidField("expires_at", "core_never_expires",
			"a core memory never expires; leave it out, or store a daily one")
	}
	if s.Category == Conversation && s.SessionID == "" {
		s.SessionID = ident.DefaultSession
	}
	return s.completeTags()
}

// completeTags checks the tags against their limits and removes duplicates.
func (s *Spec) completeTags() error {
	if err := checkTagCount("tags", s.Tags); err != nil {
		return err
	}
	tags := make([]string, 0, len(s.Tags))
	for _, tag := range s.Tags {
		if len(tag) > maxTag || !visible(tag) || !printable(tag) {
			return fault.InvalidField("tags", "invalid_value",
				"each must be 1 to %d bytes without control characters, not blank", maxTag)
		}
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	s.Tags = tags
	return nil
}

func checkTagCount(field string, tags []string) error {
	if len(tags) > maxTags {
		return fault.InvalidField(field, "too_many", "there are %d, and the limit is %d", len(tags), maxTags)
	}
	return nil
}

func checkCategory(field, category string) error {
	if !slices.Contains(categories, category) {
		return fault.InvalidField(field, "invalid_value", "must be %s or %s", strings.Join(categories[:2], ", "),
			categories[2])
	}
	return nil
}

// visible reports whether a text has a visible character: not only spaces, combining marks and characters of zero
// width.
func visible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		switch r {
		case '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0': // letters and symbols without a visible glyph
			return false
		}
		return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
	})
}

// printable reports whether a short text is valid UTF-8 without control characters.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// memory returns the spec as a Memory, without the fields that storing it sets.
func (s *Spec) memory(c ident.Caller) Memory {
	m := Memory{Key: s.Key, Namespace: s.Namespace, OccurredAt: s.OccurredAt, Metadata: s.Metadata,
		Value: s.Value, Content: s.Content, Category: s.Category, Tags: s.Tags, Source: s.Source,
		Importance: defaultImportance, Pinned: s.Pinned, Standing: s.Standing, KeyID: c.KeyID, Agent: c.Agent}
	if s.SessionID != "" {
		m.SessionID = &s.SessionID
	}
	if s.Importance != nil {
		m.Importance = math.Abs(*s.Importance) // turns -0 into 0
	}
	return m
}
