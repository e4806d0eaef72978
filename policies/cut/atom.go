package cut

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// Cost is an amount of messages and tokens. 64 bits hold the sum of any table.
type Cost struct{ Messages, Tokens uint64 }

// Plus and Minus add and subtract.
func (c Cost) Plus(d Cost) Cost  { return Cost{c.Messages + d.Messages, c.Tokens + d.Tokens} }
func (c Cost) Minus(d Cost) Cost { return Cost{c.Messages - d.Messages, c.Tokens - d.Tokens} }

// Less returns a budget with d set aside. A bound stays at least 1, because 0 means no bound.
func (c Cost) Less(d Cost) Cost { return Cost{less(c.Messages, d.Messages), less(c.Tokens, d.Tokens)} }

func less(bound, n uint64) uint64 {
	if bound == 0 {
		return 0
	}
	return max(bound-min(bound, n), 1)
}

// Holds reports whether a budget has room for d. In a budget, 0 means no bound.
func (c Cost) Holds(d Cost) bool {
	return (c.Messages == 0 || d.Messages <= c.Messages) && (c.Tokens == 0 || d.Tokens <= c.Tokens)
}

// Part returns a share of each bound, at least 1, because 0 means no bound.
func (c Cost) Part(share float64) Cost { return Cost{part(c.Messages, share), part(c.Tokens, share)} }

func part(bound uint64, share float64) uint64 {
	if bound == 0 {
		return 0
	}
	return max(uint64(float64(bound)*share), 1)
}

// Atom is the records up to End, which stay or go together. It has four fields because a compiler can keep as many in
// registers.
type Atom struct {
	End    int
	Tokens uint64
	Turn   uint32
	Facts  Facts
}

// Facts are the combined flags of an atom's records and, above them, one bit for each role that occurs.
type Facts uint32

const rolesShift = 16

// At returns the atom that begins at a record.
func At(records mneme.Records, first int) Atom {
	r := records.At(first)
	id := r.Atom
	a := Atom{End: first, Turn: r.Turn}
	for {
		a.Tokens += uint64(r.Tokens)
		a.Facts |= Facts(r.Flags) | 1<<rolesShift<<(r.Role&7)
		if a.End++; a.End == records.Len() {
			return a
		}
		if r = records.At(a.End); r.Atom != id {
			return a
		}
	}
}

// Has reports whether the atom has a record with the role.
func (f Facts) Has(role mneme.Role) bool { return f>>rolesShift>>role&1 != 0 }

// System reports whether the atom is a system-class record, which does not count as a message.
func (f Facts) System() bool { return f.Has(mneme.System) }

// Must reports whether the window must contain the atom, Pinned whether an earlier step pinned it.
func (f Facts) Must() bool   { return f&Facts(mneme.Mandatory) != 0 }
func (f Facts) Pinned() bool { return f&Facts(mneme.Pinned) != 0 }

// OnlyPinned reports whether the atom stays only because it is pinned.
func (f Facts) OnlyPinned() bool { return f.Pinned() && !f.Must() && !f.System() }

// Fixed reports whether the atom stays, wherever the cut is.
func (f Facts) Fixed() bool { return f.System() || f.Must() || f.Pinned() }

// Plain reports whether the atom consists of full messages that a cut may pass.
func (f Facts) Plain() bool {
	return f&(1<<rolesShift<<Facts(mneme.System)|Facts(mneme.Mandatory|mneme.Pinned|mneme.Compressed)) == 0
}

// Question reports whether the atom is the earlier question that remains of a turn. It does not count as a message.
func (f Facts) Question() bool { return f&Facts(mneme.Compressed) != 0 && !f.System() }

// Cost returns the cost of the atom, which begins at first.
func (a Atom) Cost(first int) Cost {
	if a.Facts.System() || a.Facts.Question() {
		return Cost{Tokens: a.Tokens}
	}
	return Cost{Messages: uint64(a.End - first), Tokens: a.Tokens}
}
