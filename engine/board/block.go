package board

// This file implements an index that finds numbered things by terms. For each term and each range of Size numbers, a
// Block says which of these numbers have the term. Blocks are bit sets, so terms are combined and counted without
// reading the things themselves, and a large index is read a few blocks at a time. The code does not depend on what is
// numbered or on where blocks are stored.

import (
	"encoding/binary"
	"math/bits"
)

// Size is how many numbers a block covers. The number n is in block n/Size.
const Size = 1024

// Block is a set of numbers within one block. Methods that take a number use only its position within the block. The
// zero value is the empty set.
type Block [Size / 64]uint64

// Set adds a number to the set.
func (b *Block) Set(n uint64) { b[n%Size/64] |= 1 << (n % 64) }

// Clear removes a number from the set.
func (b *Block) Clear(n uint64) { b[n%Size/64] &^= 1 << (n % 64) }

// Count returns the number of elements.
func (b *Block) Count() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// And removes the numbers that are not in the other set.
func (b *Block) And(other *Block) {
	for i := range b {
		b[i] &= other[i]
	}
}

// AndNot removes the numbers that are in the other set.
func (b *Block) AndNot(other *Block) {
	for i := range b {
		b[i] &^= other[i]
	}
}

// Between removes the numbers outside the range from first to last. block is the number of the block.
func (b *Block) Between(block, first, last uint64) {
	for i := range b {
		low := block*Size + uint64(i*64)
		high := low + 63
		if high < first || low > last {
			b[i] = 0
			continue
		}
		if first > low {
			b[i] &= ^uint64(0) << (first - low)
		}
		if last < high {
			b[i] &= ^uint64(0) >> (high - last)
		}
	}
}

// Numbers returns the elements in ascending order. block is the number of the block.
func (b *Block) Numbers(block uint64) []uint64 {
	out := make([]uint64, 0, b.Count())
	for i, word := range b {
		for ; word != 0; word &= word - 1 {
			out = append(out, block*Size+uint64(i*64+bits.TrailingZeros64(word)))
		}
	}
	return out
}

// maxListed is the largest number of elements that are encoded as a list. A longer list is larger than the bit set.
const maxListed = Size/8/2 - 1

// Encode encodes a small set as a list of two-byte numbers, and a larger one as a bit set. The empty set is encoded as
// no bytes.
func (b *Block) Encode() []byte {
	if b.Count() <= maxListed {
		out := []byte{}
		for _, n := range b.Numbers(0) {
			out = binary.BigEndian.AppendUint16(out, uint16(n))
		}
		return out
	}
	out := make([]byte, 0, Size/8)
	for _, word := range b {
		out = binary.BigEndian.AppendUint64(out, word)
	}
	return out
}

// Decode decodes what Encode produced. It returns false for anything else.
func Decode(data []byte) (b Block, ok bool) {
	if len(data) == Size/8 {
		for i := range b {
			b[i] = binary.BigEndian.Uint64(data[8*i:])
		}
		return b, true
	}
	if len(data) > 2*maxListed || len(data)%2 != 0 {
		return b, false
	}
	for ; len(data) > 0; data = data[2:] {
		n := binary.BigEndian.Uint16(data)
		if n >= Size {
			return b, false
		}
		b.Set(uint64(n))
	}
	return b, true
}
