package hostapi

import (
	"bytes"
	"math/bits"
	"slices"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// linearMemory is the memory of one instance. The host owns it: host functions access it without a lookup, and its
// growth is limited here. It implements experimental.LinearMemory.
type linearMemory struct {
	bytes   []byte
	most    uint64 // the module's own maximum
	limit   uint64 // the host's limit
	refused bool   // the guest asked for more than limit
	buffers *buffers
	rest    func()         // called when the guest refills its slice
	charge  func(fuel int) // called when the guest grows its memory
}

// bytesPerGrown is how many bytes of new memory a unit of fuel pays for: they are zeroed, and the existing ones copied.
const bytesPerGrown = 8

// Reallocate grows the memory, or returns nil beyond a limit. The capacity doubles, so that growing page by page copies
// at most twice the final size. Growth by YieldPages is a refill.
func (m *linearMemory) Reallocate(size uint64) []byte {
	if size == uint64(len(m.bytes))+wasm.YieldPages*pageBytes {
		m.rest()
		return nil
	}
	if size > m.most {
		return nil
	}
	if size > m.limit {
		m.refused = true
		return nil
	}
	if m.bytes != nil {
		m.charge(int(size-uint64(len(m.bytes))) / bytesPerGrown)
	}
	if size <= uint64(cap(m.bytes)) {
		m.bytes = m.bytes[:size] // the new part was never used, so it is zero
		return m.bytes
	}
	grown := m.buffers.take(int(max(size, min(2*uint64(cap(m.bytes)), m.limit))))[:size]
	copy(grown, m.bytes)
	m.Free()
	m.bytes = grown
	return grown
}

// Free passes the memory on to the next instance of its size.
func (m *linearMemory) Free() {
	if m.bytes != nil {
		m.buffers.put(m.bytes)
		m.bytes = nil
	}
}

// snapshot is the memory and the mutable globals of an instance that has just started. All instances of a module with
// the same arena size start alike, so they share one.
type snapshot struct {
	size    int
	cards   [][]byte // the bytes of each card; nil if all are zero, as most are
	globals []uint64
}

func takeSnapshot(memory []byte, globals []uint64) *snapshot {
	s := &snapshot{size: len(memory), cards: make([][]byte, len(memory)/wasm.CardBytes), globals: globals}
	for i := range s.cards {
		if card := memory[i*wasm.CardBytes:][:wasm.CardBytes]; !allZero(card) {
			s.cards[i] = bytes.Clone(card)
		}
	}
	return s
}

var zeros [wasm.CardBytes]byte

// allZero reports whether all bytes are zero.
func allZero(b []byte) bool {
	for ; len(b) > len(zeros); b = b[len(zeros):] {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// weight returns the memory that a snapshot uses, in bytes.
func (s *snapshot) weight() int {
	n := 8*len(s.globals) + 24*len(s.cards)
	for _, card := range s.cards {
		n += len(card)
	}
	return n
}

// matches reports whether a memory and globals equal the snapshot.
func (s *snapshot) matches(memory []byte, globals []uint64) bool {
	if len(memory) != s.size || !slices.Equal(globals, s.globals) {
		return false
	}
	for i, card := range s.cards {
		now := memory[i*wasm.CardBytes:][:wasm.CardBytes]
		if card == nil && !allZero(now) || card != nil && !bytes.Equal(now, card) {
			return false
		}
	}
	return true
}

// dirty is what a call may have written to: the cards whose bits are set, and a range.
type dirty struct {
	cards    uint64
	from, to int
}

const allCards = 1<<64 - 1

// restore resets what a call may have changed of a memory. It returns false if the memory has grown, which cannot be
// undone.
func (s *snapshot) restore(memory []byte, d dirty) bool {
	if len(memory) != s.size {
		return false
	}
	if d.cards == allCards {
		d = dirty{to: len(memory)}
	}
	s.put(memory, d.from, d.to)
	for left := d.cards; left != 0; left &= left - 1 {
		for at := bits.TrailingZeros64(left) * wasm.CardBytes; at < len(memory); at += wasm.Cards * wasm.CardBytes {
			s.put(memory, at, min(at+wasm.CardBytes+wasm.CardSpill, len(memory)))
		}
	}
	return true
}

// put restores the bytes of a range.
func (s *snapshot) put(memory []byte, from, to int) {
	for from < to {
		i, in := from/wasm.CardBytes, from%wasm.CardBytes
		n := min(to-from, wasm.CardBytes-in)
		if card := s.cards[i]; card == nil {
			clear(memory[from:][:n])
		} else {
			copy(memory[from:][:n], card[in:])
		}
		from += n
	}
}
