package memory

import (
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Filter picks memories: all that it names must hold.
type Filter struct {
	Category   string     `json:"category,omitempty"`
	Categories []string   `json:"categories,omitempty"` // one of them
	Tags       []string   `json:"tags,omitempty"`       // all of them
	TagsAny    []string   `json:"tags_any,omitempty"`   // one of them
	TagsNot    []string   `json:"tags_not,omitempty"`   // none of them
	Source     string     `json:"source,omitempty"`
	SessionID  string     `json:"session_id,omitempty"`
	Namespace  []string   `json:"namespace,omitempty"` // and those below it
	Since      string     `json:"since,omitempty"`     // of the memory's time, inclusive: RFC 3339, or a day
	Until      string     `json:"until,omitempty"`     // likewise; a day is meant to its end
	Metadata   Conditions `json:"metadata,omitempty"`
	Value      Conditions `json:"value,omitempty"`

	// Reader is the session that asks. Conversation memories of other sessions do not pass, unless the filter names the
	// category or a session. Nil: they pass.
	Reader *string `json:"-"`

	// What Check read.
	From, To        *time.Time `json:"-"` // Since and Until; nil: no bound
	path            string     // of Namespace
	metadata, value condition  // nil: none
}

// Check refuses a filter that nothing can mean, as invalid with the field, and reads it.
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
	err := ident.CheckNamespace("namespace", f.Namespace)
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
		return fault.InvalidField("until", "out_of_range", "must not lie before since")
	}
	return nil
}

// Passes tells whether a memory passes and is not expired.
func (f *Filter) Passes(r *Record, now time.Time) bool {
	return f.matches(r.entry(), now) && f.saysOf(r)
}

// matches tells whether a memory passes as far as its entry in the index by time tells.
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

// ShowsConversation tells whether a conversation memory of a session passes as far as the reader goes.
func (f *Filter) ShowsConversation(session string) bool {
	return f.Reader == nil || *f.Reader == session || f.SessionID != "" || f.Category == Conversation ||
		slices.Contains(f.Categories, Conversation)
}

// saysOf tells whether a memory passes as far as only its record tells.
func (f *Filter) saysOf(r *Record) bool {
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

// OfCategories lists the categories that pass; nil where all do. What is asked for twice over, in category and in
// categories, must be both; where nothing can be, none is a category that no memory has.
func (f *Filter) OfCategories() []string {
	switch {
	case f.Category == "":
		return f.Categories
	case len(f.Categories) == 0 || slices.Contains(f.Categories, f.Category):
		return []string{f.Category}
	}
	return []string{""}
}

// NeedsRecord tells whether the filter asks for what neither the index by time nor that of words tells of a memory.
func (f *Filter) NeedsRecord() bool { return f.metadata != nil || f.value != nil }

// Within tells whether a memory with that full name lies in the filter's namespace.
func (f *Filter) Within(id string) bool { return ident.InNamespace(id, f.path) }

// none tells whether the filter names nothing.
func (f *Filter) none() bool {
	return f.empty() && !f.NeedsRecord() && f.From == nil && f.To == nil
}

// empty tells whether every memory of the right time passes, save those that are expired, as far as entries tell.
func (f *Filter) empty() bool {
	return f.Category == "" && f.Source == "" && f.SessionID == "" && f.path == "" &&
		len(f.Tags)+len(f.TagsAny)+len(f.TagsNot)+len(f.Categories) == 0
}

// named is the part of a project's memories by name that the filter's namespace leaves.
func (f *Filter) named(pinc ident.Incarnation) []store.Range {
	all := records.Memory.Under(pinc)
	if f.path == "" {
		return []store.Range{all}
	}
	part := func(from, to string) store.Range {
		begin := all.From[:len(all.From):len(all.From)]
		return store.Range{From: append(begin, f.path+from...), To: append(begin, f.path+to...)}
	}
	return []store.Range{part("!", `"`), part("/", "0")} // its own, then those of the namespaces below it
}

// within is the part of a project's index by time that the filter's times leave.
func (f *Filter) within(pinc ident.Incarnation) store.Range {
	rng := records.MemoryTime.Under(pinc)
	if f.To != nil {
		rng.From = records.MemoryTime.Key(pinc, records.TimeOf(max(0, f.To.UnixMilli())), "")
	}
	if f.From != nil && f.From.UnixMilli() > 0 {
		// A time between two milliseconds leaves out the first of them.
		first := f.From.Add(time.Millisecond - 1).Truncate(time.Millisecond)
		rng.To = records.MemoryTime.Key(pinc, first.Add(-time.Millisecond), "")
	}
	return rng
}
