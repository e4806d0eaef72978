package board

// This part of the package finds numbered things by what they have. For each term that things are found by, and for each block
// of Size numbers, a Block says which things of the block have the term. Blocks are bits, so that terms are combined
// and counted without reading the things themselves, and a large index is read a few blocks at a time. The package
// knows nothing of what is numbered, nor of where blocks are stored.

import (
	"encoding/binary"
	"math/bits"
)

// Size is how many numbers a block holds. The number n is in the block n/Size.
const Size = 1024

// Block is a set of the numbers of one block. A method that takes the number of an element looks at its place in the
// block alone. The zero value is the empty set.
type Block [Size / 64]uint64

// Set puts a number into the set.
func (b *Block) Set(n uint64) { b[n%Size/64] |= 1 << (n % 64) }

// Clear takes a number out of the set.
func (b *Block) Clear(n uint64) { b[n%Size/64] &^= 1 << (n % 64) }

// Count is the number of elements.
func (b *Block) Count() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// And keeps the numbers that the other set holds too.
func (b *Block) And(other *Block) {
	for i := range b {
		b[i] &= other[i]
	}
}

// AndNot keeps the numbers that the other set does not hold.
func (b *Block) AndNot(other *Block) {
	for i := range b {
		b[i] &^= other[i]
	}
}

// Between keeps the numbers from first to last, where the set is of the given block.
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

// Numbers gives the elements in ascending order, where the set is of the given block.
func (b *Block) Numbers(block uint64) []uint64 {
	out := make([]uint64, 0, b.Count())
	for i, word := range b {
		for ; word != 0; word &= word - 1 {
			out = append(out, block*Size+uint64(i*64+bits.TrailingZeros64(word)))
		}
	}
	return out
}

// maxListed is the most numbers that are written as a list, because a longer list takes more room than all bits.
const maxListed = Size/8/2 - 1

// Encode writes a set of few numbers as a list of two bytes each, and a set of many as bits. The empty set has no
// bytes.
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

// Decode reads what Encode wrote. It is false for anything else.
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
