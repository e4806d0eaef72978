package cache

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Numbering assigns ids to the strings, delegations, tags and atoms of one request, in the order in which the window's
// records first use them. The bytes of a request therefore depend on its records only.
type Numbering struct {
	names []string // the names that rows refer to by number
	// Strings are the names that records refer to by number.
	Strings     []string
	ids         []uint32 // index in view names: id in Strings
	delegations []uint32 // index in view names: dense id
	dense       uint32   // delegations numbered so far
	Tags        []uint32
	Atoms       uint32 // atoms seen so far; an atom is a call with its results, which are shown together
}

// NewNumbering starts with the names of a view.
func NewNumbering(names []string) *Numbering {
	n := &Numbering{names: names, Strings: make([]string, 1, 16)}
	scratch := make([]uint32, 2*(len(names)+2))
	n.ids, n.delegations = scratch[:len(names)+2], scratch[len(names)+2:]
	return n
}

// index finds a string among the view's names, and appends it if no row uses it.
func (n *Numbering) index(s string) uint32 {
	if s == "" {
		return 0
	}
	if i := slices.Index(n.names, s); i >= 0 {
		return uint32(i)
	}
	n.names = append(slices.Clip(n.names), s)
	return uint32(len(n.names) - 1)
}

// Name returns the id of a string that a request uses outside its records. Delegation does the same for a delegation.
func (n *Numbering) Name(s string) uint32 { return n.string(n.index(s)) }

func (n *Numbering) Delegation(s string) uint32 { return n.delegationOf(n.index(s)) }

func (n *Numbering) string(at uint32) uint32 {
	if at == 0 {
		return 0
	}
	if n.ids[at] == 0 {
		n.ids[at] = uint32(len(n.Strings))
		n.Strings = append(n.Strings, n.names[at])
	}
	return n.ids[at]
}

func (n *Numbering) delegationOf(at uint32) uint32 {
	if at == 0 {
		return 0
	}
	if n.delegations[at] == 0 {
		n.dense++
		n.delegations[at] = n.dense
	}
	return n.delegations[at]
}

// Record describes a row to policies. The caller, which knows the rendering, fills in the tokens.
func (n *Numbering) Record(r *Row) plan.Record {
	rec := plan.Record{Seq: r.Seq, Created: r.Created, Turn: r.Turn, TextBytes: r.TextBytes,
		Atom: n.Atoms, Delegation: n.delegationOf(r.DelegationID), Agent: n.string(r.AgentID), Tool: n.string(r.ToolID),
		Flags: r.Flags, Role: r.Role, Kind: r.Kind}
	if len(r.TagIDs) > 0 {
		rec.TagsAt, rec.TagCount = uint32(len(n.Tags)), uint32(len(r.TagIDs))
		for _, tag := range r.TagIDs {
			n.Tags = append(n.Tags, n.string(tag))
		}
	}
	return rec
}
