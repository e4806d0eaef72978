package toolpairtrim

import mneme "github.com/seed-0906e6bc/mneme/sdk/go"

// cost is what records take of a budget. 64 bits hold the sum of any table.
type cost struct{ messages, tokens uint64 }

func (c cost) plus(d cost) cost  { return cost{c.messages + d.messages, c.tokens + d.tokens} }
func (c cost) minus(d cost) cost { return cost{c.messages - d.messages, c.tokens - d.tokens} }

// holds tells whether a budget, in which 0 is no bound, has room for d.
func (c cost) holds(d cost) bool {
	return (c.messages == 0 || d.messages <= c.messages) && (c.tokens == 0 || d.tokens <= c.tokens)
}

// table reads a request's records as atoms and turns.
type table struct {
	req    *mneme.Request
	budget cost
}

// atom is the records up to end, which stay or go together. Four fields are as many as a compiler keeps in registers.
type atom struct {
	end    int
	tokens uint64
	turn   uint32
	facts  facts
}

// facts are the flags of any record of an atom and, above them, a bit for the role of each.
type facts uint32

const rolesShift = 16

func (t *table) atomAt(first int) atom {
	r := t.req.Record(first)
	id := r.Atom
	a := atom{end: first, turn: r.Turn}
	for {
		a.tokens += uint64(r.Tokens)
		a.facts |= facts(r.Flags) | 1<<rolesShift<<(r.Role&7)
		if a.end++; a.end == t.req.Len() {
			return a
		}
		if r = t.req.Record(a.end); r.Atom != id {
			return a
		}
	}
}

func (f facts) has(role mneme.Role) bool { return f>>rolesShift>>role&1 != 0 }
func (f facts) system() bool             { return f.has(mneme.System) }
func (f facts) fixed() bool              { return f.system() || f&facts(mneme.Mandatory) != 0 }

// cost of the atom that begins at first. A system-class record is an atom of its own and no message.
func (a atom) cost(first int) cost {
	if a.facts.system() {
		return cost{tokens: a.tokens}
	}
	return cost{messages: uint64(a.end - first), tokens: a.tokens}
}

// sums is the cost of a table's atoms by how they stand to the cut.
type sums struct{ system, mandatory, free cost }

// fixed is what stays wherever the cut is.
func (s sums) fixed() cost { return s.system.plus(s.mandatory) }
func (s sums) total() cost { return s.fixed().plus(s.free) }

// before sums the atoms before a record.
func (t *table) before(end int) sums {
	var s sums
	for i := 0; i < end; {
		a := t.atomAt(i)
		switch {
		case a.facts.system():
			s.system = s.system.plus(a.cost(i))
		case a.facts.fixed():
			s.mandatory = s.mandatory.plus(a.cost(i))
		default:
			s.free = s.free.plus(a.cost(i))
		}
		i = a.end
	}
	return s
}

// turnAt returns the end of the turn that begins at first, with the system-class atoms among and around its own, and
// what it costs: without system-class atoms, and without any that must stay.
func (t *table) turnAt(first int) (end int, all, free cost) {
	var number uint32
	begun := false
	for i := first; i < t.req.Len(); {
		a := t.atomAt(i)
		if !a.facts.system() {
			if begun && a.turn != number {
				return i, all, free
			}
			begun, number = true, a.turn
			all = all.plus(a.cost(i))
			if !a.facts.fixed() {
				free = free.plus(a.cost(i))
			}
		}
		i = a.end
	}
	return t.req.Len(), all, free
}
