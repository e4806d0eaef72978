package gateway

import "sync"

// largestBuffer is the largest buffer, in bytes, that is kept for a later call.
const largestBuffer = 4 << 20

// buffers keeps buffers that one call after another writes into. A session's calls each have the whole history in them, so
// that without it most garbage of a call would be its window and its body.
type buffers struct{ pool sync.Pool } // of *[]byte

// take gives an empty buffer, which is the caller's alone.
func (b *buffers) take() *[]byte {
	if kept, ok := b.pool.Get().(*[]byte); ok {
		return kept
	}
	return new([]byte)
}

// give takes a buffer back that nobody reads any more.
func (b *buffers) give(buffer *[]byte) {
	if cap(*buffer) <= largestBuffer {
		*buffer = (*buffer)[:0]
		b.pool.Put(buffer)
	}
}
