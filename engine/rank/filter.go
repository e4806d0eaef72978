package rank

import (
	"slices"
	"time"
)

// Filter leaves documents out. A field that is zero leaves out nothing.
type Filter struct {
	ByCategory   bool // Category counts
	Category     Category
	Tags         []string // all of them
	Group        string
	Session      string
	Stream       uint64    // that of Session; 0: any
	Since, Until time.Time // inclusive
}

// may tells whether a document may pass, by what its postings say. Where it is false, Passes is false too.
func (f *Filter) may(day uint16, a Attrs) bool {
	switch {
	case f.ByCategory && a.category() != f.Category,
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
	return true
}

// Passes tells whether a document passes and is not expired.
func (f *Filter) Passes(d *Document, now time.Time) bool {
	switch {
	case f.ByCategory && d.Category != f.Category,
		f.Group != "" && d.Group != f.Group,
		f.Session != "" && d.Session != f.Session,
		!f.Since.IsZero() && d.Created.Before(f.Since),
		!f.Until.IsZero() && d.Created.After(f.Until),
		!d.Expires.IsZero() && !d.Expires.After(now):
		return false
	}
	for _, t := range f.Tags {
		if !slices.Contains(d.Tags, t) {
			return false
		}
	}
	return true
}
