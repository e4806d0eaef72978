package hostapi

import (
	"bytes"
	"slices"

	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// linearMemory is the memory of one instance, owned by the host: host functions reach it without a lookup, and growth
// is bounded here. It implements experimental.LinearMemory.
type linearMemory struct {
	bytes   []byte
	most    uint64 // the module's own maximum
	limit   uint64 // the host's
	refused bool   // the guest asked for more than limit
	buffers *buffers
	rest    func()         // the guest refills its slice
	charge  func(fuel int) // the guest grows its memory
}

// bytesPerGrown is how many bytes of new memory a unit of fuel buys: they are zeroed, and what there was is copied.
const bytesPerGrown = 8

// Reallocate grows the memory, or returns nil beyond a limit. Capacity doubles, so that growing page by page copies
// at most twice the final size. Growth by YieldPages is a refill's.
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

// Free gives the memory to the next instance of its size.
func (m *linearMemory) Free() {
	if m.bytes != nil {
		m.buffers.put(m.bytes)
		m.bytes = nil
	}
}

// snapshot is the memory and the mutable globals of an instance that has just started. All instances of a module and
// arena size start alike, so they share one.
type snapshot struct {
	size    int
	runs    []run
	globals []uint64
}

// run is a stretch of memory with its bytes, or nil where all are zero. Most memory is zero, and clearing it takes half
// the time of copying it or of comparing it first (BenchmarkRestore).
type run struct {
	at, end int
	bytes   []byte
}

// runSize is the unit, in bytes, in which a memory is split into runs.
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

// allZero reports whether all bytes are zero.
func allZero(b []byte) bool {
	var zeros [runSize]byte
	for ; len(b) > runSize; b = b[runSize:] {
		if !bytes.Equal(b[:runSize], zeros[:]) {
			return false
		}
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// weight is the memory that a snapshot takes, in bytes.
func (s *snapshot) weight() int {
	n := 8 * len(s.globals)
	for i := range s.runs {
		n += len(s.runs[i].bytes)
	}
	return n
}

// matches reports whether a memory and globals equal the snapshot.
func (s *snapshot) matches(memory []byte, globals []uint64) bool {
	if len(memory) != s.size || !slices.Equal(globals, s.globals) {
		return false
	}
	for i := range s.runs {
		r := &s.runs[i]
		stretch := memory[r.at:r.end]
		if r.bytes == nil && !allZero(stretch) || r.bytes != nil && !bytes.Equal(stretch, r.bytes) {
			return false
		}
	}
	return true
}

// restore resets a memory. It returns false where the memory has grown, which cannot be undone. All of the memory is
// written, so that nothing depends on what the guest touched.
func (s *snapshot) restore(memory []byte) bool {
	if len(memory) != s.size {
		return false
	}
	for i := range s.runs {
		if r := &s.runs[i]; r.bytes == nil {
			zero(memory[r.at:r.end])
		} else {
			copy(memory[r.at:r.end], r.bytes)
		}
	}
	return true
}
