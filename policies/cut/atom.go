package cut

import mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"

// Cost is what records take of a budget. 64 bits hold the sum of any table.
type Cost struct{ Messages, Tokens uint64 }

// Plus adds, Minus subtracts.
func (c Cost) Plus(d Cost) Cost  { return Cost{c.Messages + d.Messages, c.Tokens + d.Tokens} }
func (c Cost) Minus(d Cost) Cost { return Cost{c.Messages - d.Messages, c.Tokens - d.Tokens} }

// Less is a budget with something set aside. A bound stays at least 1, because 0 means no bound.
func (c Cost) Less(d Cost) Cost { return Cost{less(c.Messages, d.Messages), less(c.Tokens, d.Tokens)} }

func less(bound, n uint64) uint64 {
	if bound == 0 {
		return 0
	}
	return max(bound-min(bound, n), 1)
}

// Holds tells whether a budget, in which 0 is no bound, has room for d.
func (c Cost) Holds(d Cost) bool {
	return (c.Messages == 0 || d.Messages <= c.Messages) && (c.Tokens == 0 || d.Tokens <= c.Tokens)
}

// Part is a share of each bound. It is at least 1, because 0 means no bound.
func (c Cost) Part(share float64) Cost { return Cost{part(c.Messages, share), part(c.Tokens, share)} }

func part(bound uint64, share float64) uint64 {
	if bound == 0 {
		return 0
	}
	return max(uint64(float64(bound)*share), 1)
}

// Atom is the records up to End, which stay or go together. Four fields are as many as a compiler keeps in registers.
type Atom struct {
	End    int
	Tokens uint64
	Turn   uint32
	Facts  Facts
}

// Facts are the flags of any record of an atom and, above them, a bit for the role of each.
type Facts uint32

const rolesShift = 16

// At is the atom that begins at a record.
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

// Has tells whether a record of the atom has the role.
func (f Facts) Has(role mneme.Role) bool { return f>>rolesShift>>role&1 != 0 }

// System tells whether the atom is a system-class record, which is no message.
func (f Facts) System() bool { return f.Has(mneme.System) }

// Must tells whether the window must hold the atom, Pinned whether an earlier step asked to keep it.
func (f Facts) Must() bool   { return f&Facts(mneme.Mandatory) != 0 }
func (f Facts) Pinned() bool { return f&Facts(mneme.Pinned) != 0 }

// OnlyPinned tells whether the atom stays for no other reason than that it is pinned.
func (f Facts) OnlyPinned() bool { return f.Pinned() && !f.Must() && !f.System() }

// Fixed tells whether the atom stays wherever the cut is.
func (f Facts) Fixed() bool { return f.System() || f.Must() || f.Pinned() }

// Plain tells whether the atom is messages in full that a cut may pass.
func (f Facts) Plain() bool {
	return f&(1<<rolesShift<<Facts(mneme.System)|Facts(mneme.Mandatory|mneme.Pinned|mneme.Compressed)) == 0
}

// Question tells whether the atom is the earlier question that is left of a turn. It costs no message.
func (f Facts) Question() bool { return f&Facts(mneme.Compressed) != 0 && !f.System() }

// Cost is what the atom that begins at first takes.
func (a Atom) Cost(first int) Cost {
	if a.Facts.System() || a.Facts.Question() {
		return Cost{Tokens: a.Tokens}
	}
	return Cost{Messages: uint64(a.End - first), Tokens: a.Tokens}
}
