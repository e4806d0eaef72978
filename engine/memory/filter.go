package memory

import (
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Filter selects memories. A memory must meet all of its conditions.
type Filter struct {
	Category   string     `json:"category,omitempty"`
	Categories []string   `json:"categories,omitempty"` // one of them
	Tags       []string   `json:"tags,omitempty"`       // all of them
	TagsAny    []string   `json:"tags_any,omitempty"`   // one of them
	TagsNot    []string   `json:"tags_not,omitempty"`   // none of them
	Source     string     `json:"source,omitempty"`
	SessionID  string     `json:"session_id,omitempty"`
	Namespace  []string   `json:"namespace,omitempty"` // including namespaces below it
	Since      string     `json:"since,omitempty"`     // inclusive bound of the memory's time: RFC 3339, or a day
	Until      string     `json:"until,omitempty"`     // the same as for Since; a day includes all of it
	Metadata   Conditions `json:"metadata,omitempty"`
	Value      Conditions `json:"value,omitempty"`
	MinTrust   Trust      `json:"min_trust,omitempty"` // what is less trusted does not match

	// Reader is the session that asks. Conversation memories of other sessions do not match, unless the filter names the
	// category or a session. If nil, they match.
	Reader *string `json:"-"`

	// Set by Check.
	From, To        *time.Time `json:"-"` // Since and Until; nil means no bound
	path            string     // of Namespace
	metadata, value condition  // nil if there are none
}

// Check parses the filter. It returns an invalid-argument error that names the field if the filter is invalid.
func (f *Filter) Check() error {
	if f.Category != "" {
		if err := checkCategory("category", f.Category); err != nil {
			return err
		}
	}
	if len(f.Categories) > maxTags {
		return fault.InvalidField("categories", "too_many", "there are %d categories", len(categories))
	}
	for _, c := range f.Categories {
		if err := checkCategory("categories", c); err != nil {
			return err
		}
	}
	for field, tags := range map[string][]string{"tags": f.Tags, "tags_any": f.TagsAny, "tags_not": f.TagsNot} {
		if err := checkTagCount(field, tags); err != nil {
			return err
		}
	}
	if _, err := ParseTrust("min_trust", string(f.MinTrust)); err != nil {
		return err
	}
	err := ident.CheckStoredNamespace("namespace", f.Namespace)
	if err != nil {
		return err
	}
	f.path = ident.NamespacePath(f.Namespace)
	if f.metadata, err = f.Metadata.read("metadata"); err != nil {
		return err
	}
	if f.value, err = f.Value.read("value"); err != nil {
		return err
	}
	if f.From, err = records.ParseBound("since", f.Since, false); err != nil {
		return err
	}
	if f.To, err = records.ParseBound("until", f.Until, true); err != nil {
		return err
	}
	if f.From != nil && f.To != nil && f.From.After(*f.To) {
		return fault.InvalidField("until", "out_of_range", "must not be before since")
	}
	return nil
}

// Passes reports whether a memory matches and has not expired.
func (f *Filter) Passes(r *Record, now time.Time) bool {
	return f.matches(r.entry(), now) && f.saysOf(r)
}

// matches reports whether a memory may match, judging by its entry in the index by time.
func (f *Filter) matches(e *entry, now time.Time) bool {
	has := func(tag string) bool { return slices.Contains(e.Tags, tag) }
	missing := func(tag string) bool { return !has(tag) }
	return (f.Category == "" || f.Category == e.Category) &&
		(len(f.Categories) == 0 || slices.Contains(f.Categories, e.Category)) &&
		(f.Source == "" || f.Source == e.Source) &&
		(f.SessionID == "" || f.SessionID == e.SessionID) &&
		ident.InNamespace(e.id, f.path) &&
		(e.Category != Conversation || f.ShowsConversation(e.SessionID)) &&
		!slices.ContainsFunc(f.Tags, missing) &&
		(len(f.TagsAny) == 0 || slices.ContainsFunc(f.TagsAny, has)) &&
		!slices.ContainsFunc(f.TagsNot, has) &&
		(f.From == nil || !e.time().Before(*f.From)) &&
		(f.To == nil || !e.time().After(*f.To)) &&
		(e.Expires == 0 || e.Expires > now.UnixMilli())
}

// ShowsConversation reports whether the reader may see a conversation memory of a session.
func (f *Filter) ShowsConversation(session string) bool {
	return f.Reader == nil || *f.Reader == session || f.SessionID != "" || f.Category == Conversation ||
		slices.Contains(f.Categories, Conversation)
}

// saysOf checks the conditions that need a memory's record.
func (f *Filter) saysOf(r *Record) bool {
	if !r.Trust.AtLeast(f.MinTrust) {
		return false
	}
	if f.metadata != nil {
		object := make(map[string]any, len(r.Metadata))
		for name, raw := range r.Metadata {
			object[name], _ = decodeAny(raw)
		}
		if !f.metadata(object) {
			return false
		}
	}
	if f.value == nil {
		return true
	}
	v, err := decodeAny(r.Value)
	return err == nil && f.value(v)
}

// OfCategories returns the categories that match, or nil for all. Category and Categories must both match. If nothing
// can match, it returns a category that no memory has.
func (f *Filter) OfCategories() []string {
	switch {
	case f.Category == "":
		return f.Categories
	case len(f.Categories) == 0 || slices.Contains(f.Categories, f.Category):
		return []string{f.Category}
	}
	return []string{""}
}

// NeedsRecord reports whether the filter needs a memory's record, because neither the index by time nor the index of
// words has the fields it checks.
func (f *Filter) NeedsRecord() bool {
	return f.metadata != nil || f.value != nil || f.MinTrust.Level() > TrustTool.Level()
}

// Within reports whether the memory with that full name is in the filter's namespace.
func (f *Filter) Within(id string) bool { return ident.InNamespace(id, f.path) }

// Under returns the paths of the namespaces whose memories match, each with those below it; nil for all.
func (f *Filter) Under() []string {
	if f.path == "" {
		return nil
	}
	return []string{f.path}
}

// none reports whether the filter has no conditions.
func (f *Filter) none() bool {
	return f.empty() && !f.NeedsRecord() && f.From == nil && f.To == nil
}

// empty reports whether every unexpired memory within the time bounds matches, judging by entries.
func (f *Filter) empty() bool {
	return f.Category == "" && f.Source == "" && f.SessionID == "" && f.path == "" &&
		len(f.Tags)+len(f.TagsAny)+len(f.TagsNot)+len(f.Categories) == 0
}

// named returns the key ranges of a project's memories by name that are in the filter's namespace.
func (f *Filter) named(pinc ident.Incarnation) []store.Range {
	all := records.Memory.Under(pinc)
	if f.path == "" {
		return []store.Range{all}
	}
	part := func(from, to string) store.Range {
		begin := all.From[:len(all.From):len(all.From)]
		return store.Range{From: append(begin, f.path+from...), To: append(begin, f.path+to...)}
	}
	return []store.Range{part("!", `"`), part("/", "0")} // the namespace itself, then those below it
}

// within returns the range of a project's index by time that is within the filter's bounds.
func (f *Filter) within(pinc ident.Incarnation) store.Range {
	rng := records.MemoryTime.Under(pinc)
	if f.To != nil {
		rng.From = records.MemoryTime.Key(pinc, records.TimeOf(max(0, f.To.UnixMilli())), "")
	}
	if f.From != nil && f.From.UnixMilli() > 0 {
		// A time between two milliseconds excludes the first of them.
		first := f.From.Add(time.Millisecond - 1).Truncate(time.Millisecond)
		rng.To = records.MemoryTime.Key(pinc, first.Add(-time.Millisecond), "")
	}
	return rng
}
