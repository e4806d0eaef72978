package rank

import (
	"slices"
	"sync"
)

// keptPostings is how many postings a buffer may have room for that is kept for later queries: 8 MiB.
const keptPostings = 1 << 18

// Buffer is memory for the postings of one query at a time. Later queries get it again, whoever's they are. It holds
// numbers only, and what an earlier query left in it is written over before it is read.
type Buffer struct {
	all, free []Posting // the memory, and what no word has of it yet
	aside     []Posting // of Unite
}

var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// NewBuffer gives an empty buffer.
func NewBuffer() *Buffer { return buffers.Get().(*Buffer) }

// Reset takes the memory back from all words, whose postings must not be read any more.
func (b *Buffer) Reset() { b.free = b.all[:0] }

// Release leaves the buffer to later queries, unless it is large. Neither it nor its postings may be used any more.
func (b *Buffer) Release() {
	b.Reset()
	if cap(b.all) <= keptPostings && cap(b.aside) <= keptPostings {
		buffers.Put(b)
	}
}

// Room gives an empty list with room for n postings.
func (b *Buffer) Room(n int) []Posting {
	if cap(b.free) < n {
		b.all = make([]Posting, 0, max(n, 2*cap(b.all)))
		b.Reset()
	}
	return b.free
}

// Keep leaves a list that was begun with Room to its word until the buffer is reset.
func (b *Buffer) Keep(list []Posting) []Posting {
	b.free = list[len(list):]
	return slices.Clip(list)
}

// Unite merges the two sorted parts of a list in place; the second begins at from. A document that is in both counts
// once, with all its occurrences.
func (b *Buffer) Unite(list []Posting, from int) []Posting {
	if from == 0 || from == len(list) {
		return list
	}
	b.aside = append(b.aside[:0], list[:from]...)
	first, second, n := b.aside, list[from:], 0 // What is written at n was read before: n is never behind the second part.
	for ; len(first) > 0 && len(second) > 0; n++ {
		switch c := first[0].Compare(second[0].Place); {
		case c < 0:
			list[n], first = first[0], first[1:]
		case c > 0:
			list[n], second = second[0], second[1:]
		default:
			count := first[0].Count + second[0].Count
			list[n], first, second = first[0], first[1:], second[1:]
			list[n].Count = count
		}
	}
	n += copy(list[n:], first)
	n += copy(list[n:], second)
	return list[:n]
}
