package hostapi

import (
	"bytes"
	"slices"
)

// linearMemory is the memory of one instance, owned by the host: host functions reach it without a lookup, and growth
// is bounded here. It implements experimental.LinearMemory.
type linearMemory struct {
	bytes   []byte
	limit   uint64
	refused bool // growth past the limit was asked for
}

// Reallocate grows the memory, or answers nil past the limit. Capacity doubles, so that growing page by page copies
// no more than twice the final size.
func (m *linearMemory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	if size <= uint64(cap(m.bytes)) {
		m.bytes = m.bytes[:size] // never used before: still zero
		return m.bytes
	}
	grown := make([]byte, size, max(size, min(2*uint64(cap(m.bytes)), m.limit)))
	copy(grown, m.bytes)
	m.bytes = grown
	return grown
}

// Free leaves the memory to the garbage collector.
func (m *linearMemory) Free() {}

// snapshot is the memory and the mutable globals of an instance as they stand once it has started. All instances of a
// module and size start alike, so they share one.
type snapshot struct {
	size    int
	runs    []run
	globals []uint64
}

// run is a stretch of memory: its bytes, or nil where all are zero. Most memory is, and clearing it is the cheapest
// way to put it back: half the price of copying or of comparing first (BenchmarkRestore).
type run struct {
	at, end int
	bytes   []byte
}

// runSize is the grain in which a memory is split into runs.
const runSize = 4096

func takeSnapshot(memory []byte, globals []uint64) *snapshot {
	s := &snapshot{size: len(memory), globals: globals}
	for at := 0; at < len(memory); at += runSize {
		zero := allZero(memory[at : at+runSize])
		if n := len(s.runs); n == 0 || zero != (s.runs[n-1].bytes == nil) {
			s.runs = append(s.runs, run{at: at})
			if !zero {
				s.runs[n].bytes = []byte{} // filled in below, once its length is known
			}
		}
		s.runs[len(s.runs)-1].end = at + runSize
	}
	for i := range s.runs {
		if r := &s.runs[i]; r.bytes != nil {
			r.bytes = bytes.Clone(memory[r.at:r.end])
		}
	}
	return s
}

// allZero tells whether nothing was ever written to a stretch, or nothing but zeros.
func allZero(b []byte) bool {
	var zeros [runSize]byte
	for ; len(b) > runSize; b = b[runSize:] {
		if !bytes.Equal(b[:runSize], zeros[:]) {
			return false
		}
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// weight is what a snapshot holds.
func (s *snapshot) weight() int {
	n := 8 * len(s.globals)
	for i := range s.runs {
		n += len(s.runs[i].bytes)
	}
	return n
}

// matches says whether an instance stands exactly as the snapshot does.
func (s *snapshot) matches(memory []byte, globals []uint64) bool {
	if len(memory) != s.size || !slices.Equal(globals, s.globals) {
		return false
	}
	for i := range s.runs {
		r := &s.runs[i]
		if stretch := memory[r.at:r.end]; r.bytes == nil && !allZero(stretch) || r.bytes != nil && !bytes.Equal(stretch, r.bytes) {
			return false
		}
	}
	return true
}

// restore puts a memory back; false where it has grown, which cannot be undone. All of it is written: nothing is
// assumed about what the guest may have touched.
func (s *snapshot) restore(memory []byte) bool {
	if len(memory) != s.size {
		return false
	}
	for i := range s.runs {
		if r := &s.runs[i]; r.bytes == nil {
			clear(memory[r.at:r.end])
		} else {
			copy(memory[r.at:r.end], r.bytes)
		}
	}
	return true
}
