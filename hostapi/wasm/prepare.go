// Package wasm checks an untrusted WebAssembly module before it is compiled, and makes it safe to run. It refuses a
// module that is malformed, unsupported or too expensive to compile. It rewrites any other so that everything it
// executes is charged to a tank of fuel first, and so that the nesting of its calls is limited. The package only
// transforms bytes, in time linear in the size of the module.
package wasm

import "math/bits"

// Names that the rewritten module exports, all mutable globals of type i64, and the prefix that modules must not use.
// The host sets all four before each call; Fill and Reading do the arithmetic for the first three.
const (
	// TankExport is the fuel beyond the slice. A host can enforce a deadline by setting it to a large negative number
	// while a call runs, again and again until the call has ended: the call stops at its next refill.
	TankExport = reserved + "tank"
	// SliceExport is the fuel that charges are taken from. When it falls below zero, it is refilled from the tank, and
	// the call passes through the host's runtime, so that a garbage collection never waits for more than one slice.
	// (This needs a memory: a refill enters the runtime by a memory.grow by YieldPages.) A value below zero after a
	// call means that the call was stopped because the tank was empty.
	SliceExport = reserved + "slice"
	// DepthExport is how many more calls may be nested. A value below zero after a call means that the call was stopped
	// because there were too many. Functions that call no function of the module are not counted, because they cannot
	// recurse.
	DepthExport = reserved + "depth"
	// CardsExport has a bit for each card that was written to since the host cleared it, if Info.Marks is true.
	CardsExport = reserved + "cards"

	reserved = "mneme:"

	// YieldPages is the growth of memory that a refill requests. The host's allocator must refuse it, and may use the
	// opportunity to let others run. No memory is that large: 2 GiB.
	YieldPages = 1 << 15

	// sliceFuel is the fuel of a full slice: 5 to 20 µs of ordinary code, or 1 ms of the worst, in which every load
	// waits for main memory and for the address of the next.
	sliceFuel = 100_000
)

// Fill splits a call's fuel into the values that the host sets the tank and the slice to.
func Fill(fuel int64) (tank, slice int64) {
	slice = min(fuel, sliceFuel)
	return fuel - slice, slice
}

// Reading is the contents of the globals after a call.
type Reading struct{ Tank, Slice, Depth int64 }

// Spent returns the fuel that a call used, at most what it was given.
func (r Reading) Spent(fuel int64) int64 { return min(fuel, fuel-r.Tank-r.Slice) }

// OutOfFuel reports whether a call that trapped had used up its fuel.
func (r Reading) OutOfFuel() bool { return r.Slice < 0 }

// TooDeep reports whether a call that trapped had nested too many calls.
func (r Reading) TooDeep() bool { return r.Depth < 0 }

// CardBytes is the size of a card, and Cards the number of bits: byte n of memory belongs to the card with bit n /
// CardBytes % Cards. A store marks the card of its first byte, and may write up to CardSpill bytes beyond its end.
const (
	CardBytes = 1 << cardShift
	Cards     = 64
	CardSpill = 7

	cardShift = 12
)

// CardsOf returns the bits for the bytes from one address up to another.
func CardsOf(from, to uint64) uint64 {
	first, last := from>>cardShift, to>>cardShift
	if last-first >= Cards {
		return 1<<64 - 1
	}
	return bits.RotateLeft64(2<<(last-first)-1, int(first%Cards))
}

// Traits says what a module may change at run time that a host cannot restore. A host can restore memory and mutable
// globals.
type Traits struct {
	ChangesTables bool // table.set, table.copy, table.init or table.fill
	DropsSegments bool // data.drop or elem.drop
	KeepsRefs     bool // a mutable global holds a reference
}

// FreshInstance reports whether every call needs a new instance.
func (t Traits) FreshInstance() bool { return t.ChangesTables || t.DropsSegments || t.KeepsRefs }

// Info describes a module that Prepare accepted.
type Info struct {
	Imports  []Import
	Exports  []Export // without those that Prepare added
	Globals  []Global // mutable ones, by the names that Prepare added, without tank, slice and depth
	Traits   Traits
	Manifest []byte // contents of the custom section ManifestSection; nil if there is none

	Functions int // defined
	// Marks reports whether the module marks what it writes to in CardsExport. A module with more code than mostMarked
	// does not: compiling it would take longer, and it uses more memory than there are cards for.
	Marks bool
	Sizes Sizes
	// MemoryMin and MemoryMax are in pages of 64 KiB; both are 0 if the module has no memory. If the limit is above
	// YieldPages, the host must refuse growth beyond MemoryMax, because the rewritten module allows it.
	MemoryMin, MemoryMax uint32
}

// Sizes are what the host's memory for a module, and for each instance of it, depends on, besides code and linear
// memory.
type Sizes struct{ Types, Imports, TableEntries, Globals, Exports, Elements, ElementEntries, DataSegments int }

// Prepared is a module that may be compiled.
type Prepared struct {
	Module []byte // rewritten; shares nothing with the original
	Info   Info
	Checks []Check // everything that was checked, with what was found
}

// Prepare checks a module against the limits and rewrites it. An error is always a *Refusal. Types of instructions are
// left to the engine that compiles the result: it refuses exactly the modules that it would have refused before.
func Prepare(module []byte, lim Limits) (*Prepared, error) {
	m := &meter{bounds: lim.bounds()}
	mod := parse(module, m)
	if m.err != nil {
		return nil, m.err
	}
	rw := newRewriter(mod, lim)
	rw.functions()
	if m.err != nil {
		return nil, m.err
	}
	return &Prepared{Module: rw.module(), Info: rw.info(), Checks: m.checks()}, nil
}
