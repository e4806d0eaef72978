package window

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/transcript"
)

// numbering gives the strings, delegations, tags and atoms of one request their numbers, in the order in which the
// window's records first name them, so that a request's bytes depend on its records alone.
type numbering struct {
	view        []string // the names that rows speak of by number
	strings     []string
	ids         []uint32 // by number in view: id in strings
	delegations []uint32 // by number in view: dense id
	dense       uint32   // delegations numbered so far
	tags        []uint32
	atoms       uint32 // atoms begun so far
}

func newNumbering(names []string) *numbering {
	n := &numbering{view: names, strings: make([]string, 1, 16)}
	scratch := make([]uint32, 2*(len(names)+2))
	n.ids, n.delegations = scratch[:len(names)+2], scratch[len(names)+2:]
	return n
}

// index finds a string among the view's names. A string that no row names is added behind them.
func (n *numbering) index(s string) uint32 {
	if s == "" {
		return 0
	}
	if i := slices.Index(n.view, s); i >= 0 {
		return uint32(i)
	}
	n.view = append(slices.Clip(n.view), s)
	return uint32(len(n.view) - 1)
}

// name gives the id of a string that a request names beside its records, delegation that of a delegation.
func (n *numbering) name(s string) uint32 { return n.string(n.index(s)) }

func (n *numbering) delegation(s string) uint32 { return n.delegationOf(n.index(s)) }

func (n *numbering) string(at uint32) uint32 {
	if at == 0 {
		return 0
	}
	if n.ids[at] == 0 {
		n.ids[at] = uint32(len(n.strings))
		n.strings = append(n.strings, n.view[at])
	}
	return n.ids[at]
}

func (n *numbering) delegationOf(at uint32) uint32 {
	if at == 0 {
		return 0
	}
	if n.delegations[at] == 0 {
		n.dense++
		n.delegations[at] = n.dense
	}
	return n.delegations[at]
}

// record describes a row to policies. Tokens are filled in by the caller, who knows the rendering.
func (n *numbering) record(r *row) plan.Record {
	rec := plan.Record{Seq: r.Seq, Created: r.Created, Turn: r.Turn, TextBytes: r.TextBytes, Atom: n.atoms,
		Delegation: n.delegationOf(r.delegationID), Agent: n.string(r.agentID), Tool: n.string(r.toolID),
		Flags: r.Flags &^ transcript.FlagEmpty, Role: r.Role, Kind: r.Kind}
	if len(r.tagIDs) > 0 {
		rec.TagsAt, rec.TagCount = uint32(len(n.tags)), uint32(len(r.tagIDs))
		for _, tag := range r.tagIDs {
			n.tags = append(n.tags, n.string(tag))
		}
	}
	return rec
}
