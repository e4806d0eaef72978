package cache

import (
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// View is a session as of one revision, immutable: its head and at least the newest rows somebody wanted.
type View struct {
	Head  *session.Head
	Rows  []Row    // ascending, up to the head's last message, without a gap but for superseded ones
	Names []string // that rows speak of by number
	// Summary is the head's; nil: it has none, or it cannot be read.
	Summary *session.Summary

	tenant string
	raw    []byte // the head's bytes, by which staleness shows
	place  *place // nil: it is not kept
	of     *View  // of a past: the view whose rows it shares
}

// whole tells whether the view holds the newest want messages, or all that the session has.
func (v *View) whole(want int) bool {
	x := v.Head.Extent()
	return len(v.Rows) >= want || uint64(len(v.Rows)) == x.LivingMessages()
}

// grow makes a view out of the one before. Only the newest view appends to the array that views share, behind the rows
// that older views see.
func (v *View) grow(old *View, added []transcript.Header) {
	v.Rows, v.Names = old.Rows, old.Names
	if len(v.Rows)+len(added) > 2*project.MaxConsidered {
		v.Rows, v.Names = newest(old.Rows, project.MaxConsidered)
	}
	v.Append(added)
}

// newest copies the last rows and numbers their names anew: what no row names any more is forgotten.
func newest(rows []Row, n int) ([]Row, []string) {
	rows = rows[len(rows)-n:]
	hs := make([]transcript.Header, n)
	for i := range rows {
		hs[i] = rows[i].Header
	}
	v := new(View)
	v.Append(hs)
	for i := range rows {
		v.Rows[i].Body = rows[i].Body
	}
	return v.Rows, v.Names
}

// Append adds rows for headers, numbering their names.
func (v *View) Append(hs []transcript.Header) {
	ids := make(map[string]uint32, len(v.Names)+8)
	names := append(make([]string, 0, len(v.Names)+8), v.Names...)
	if len(names) == 0 {
		names = append(names, "")
	}
	for i, n := range names {
		ids[n] = uint32(i)
	}
	id := func(s string) uint32 {
		n, ok := ids[s]
		if !ok {
			n = uint32(len(names))
			ids[s], names = n, append(names, s)
		}
		return n
	}
	for i := range hs {
		r := Row{Header: hs[i], AgentID: id(hs[i].Agent), DelegationID: id(hs[i].Delegation), ToolID: id(hs[i].Tool),
			Body: new(Body)}
		for _, tag := range hs[i].Tags {
			r.TagIDs = append(r.TagIDs, id(tag))
		}
		v.Rows = append(v.Rows, r)
	}
	v.Names = names
}

// Beside gives rows for messages that are not stored, and the view with their names among its own.
func (v *View) Beside(hs []transcript.Header) ([]Row, *View) {
	added, with := &View{Names: v.Names}, *v
	added.Append(hs)
	with.Names = added.Names
	return added.Rows, &with
}

// summaryItem is the record to read for the view's summary; nil where it has none or the view before has it already.
func (v *View) summaryItem(old *View) *store.Item {
	s := v.Head.Covered()
	if s.Covers == 0 {
		return nil
	}
	if old != nil && old.Summary != nil && old.Head.Covered() == s {
		v.Summary = old.Summary
		return nil
	}
	return &store.Item{Key: records.Summary.Key(v.Head.Incarnation, s.Version)}
}

// About what a view and a row weigh without bodies, in bytes.
const (
	viewSize = 1024
	rowSize  = 512
)

// weigh estimates the memory that a view holds on to.
func (v *View) weigh() int {
	n := viewSize + len(v.Rows)*rowSize
	if v.Summary != nil {
		n += len(v.Summary.Text) + len(v.Summary.Notice)
	}
	for i := range v.Rows {
		n += v.Rows[i].Body.weigh()
	}
	return n
}
