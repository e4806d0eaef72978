package rank

import (
	"slices"
	"time"
)

// Filter selects documents. A zero field accepts all documents.
type Filter struct {
	Categories   []Category // one of them
	Tags         []string   // all of them
	TagsAny      []string   // one of them
	TagsNot      []string   // none of them
	Group        string
	Session      string
	Stream       uint64    // that of Session; 0 means any
	Since, Until time.Time // inclusive
}

// may reports whether a document may pass, judging by its postings. If it returns false, Passes does too.
func (f *Filter) may(day uint16, a Attrs) bool {
	switch {
	case len(f.Categories) > 0 && !slices.Contains(f.Categories, a.category()),
		f.Group != "" && hash8(f.Group) != a.group(),
		!f.Since.IsZero() && day < dayOf(f.Since),
		!f.Until.IsZero() && day > dayOf(f.Until):
		return false
	}
	for _, t := range f.Tags {
		if a&tagBit(t) == 0 {
			return false
		}
	}
	mayHave := func(tag string) bool { return a&tagBit(tag) != 0 }
	return len(f.TagsAny) == 0 || slices.ContainsFunc(f.TagsAny, mayHave)
}

// Passes reports whether a document passes and has not expired.
func (f *Filter) Passes(d *Document, now time.Time) bool {
	switch {
	case len(f.Categories) > 0 && !slices.Contains(f.Categories, d.Category),
		f.Group != "" && d.Group != f.Group,
		f.Session != "" && d.Session != f.Session,
		!f.Since.IsZero() && d.Created.Before(f.Since),
		!f.Until.IsZero() && d.Created.After(f.Until),
		!d.Expires.IsZero() && !d.Expires.After(now):
		return false
	}
	has := func(tag string) bool { return slices.Contains(d.Tags, tag) }
	missing := func(tag string) bool { return !has(tag) }
	return !slices.ContainsFunc(f.Tags, missing) && (len(f.TagsAny) == 0 || slices.ContainsFunc(f.TagsAny, has)) &&
		!slices.ContainsFunc(f.TagsNot, has)
}
