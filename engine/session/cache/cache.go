package cache

import (
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// View is an immutable snapshot of a session at one revision: its head and at least the newest rows that were asked
// for.
type View struct {
	Head  *session.Head
	Rows  []Row    // ascending, up to the head's last message, without gaps other than superseded messages
	Names []string // that rows refer to by number
	// Summary is the summary that the head names; nil if there is none or it cannot be read.
	Summary *session.Summary

	tenant string
	raw    []byte             // the head's bytes, compared to detect a stale view
	place  *place             // nil if the view is not cached
	former transcript.Formers // for a view of an earlier state: what messages were that have been changed since
	of     *View              // for a view of an earlier state: the view whose rows it shares
}

// whole reports whether the view holds the newest want messages, or all that the session has.
func (v *View) whole(want int) bool {
	x := v.Head.Extent()
	return len(v.Rows) >= want || uint64(len(v.Rows)) == x.LivingMessages()
}

// grow builds the view from an older one. Views share one array of rows. Only the newest view appends to it, beyond the
// rows that older views see.
func (v *View) grow(old *View, added []transcript.Header) {
	v.Rows, v.Names = old.Rows, old.Names
	if len(v.Rows)+len(added) > 2*project.MaxConsidered {
		v.Rows, v.Names = newest(old.Rows, project.MaxConsidered)
	}
	v.Append(added)
}

// newest copies the last n rows and renumbers their names, so that names no longer used are dropped.
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

// Beside returns rows for messages that are not stored, and a copy of the view whose names include theirs.
func (v *View) Beside(hs []transcript.Header) ([]Row, *View) {
	added, with := &View{Names: v.Names}, *v
	added.Append(hs)
	with.Names = added.Names
	return added.Rows, &with
}

// summaryItem returns the record to read for the view's summary; nil if the session has no summary or the older view
// has already read it.
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

// Approximate memory use of a view and of a row, without bodies, in bytes.
const (
	viewSize = 1024
	rowSize  = 512
)

// weigh estimates the memory that a view uses, in bytes.
func (v *View) weigh() int {
	n := viewSize + len(v.Rows)*rowSize
	if v.Summary != nil {
		n += len(v.Summary.Text) + len(v.Summary.Notice)
	}
	for i := range v.Rows {
		n += len(v.Rows[i].Header.Literals) + v.Rows[i].Body.weigh()
	}
	return n
}
