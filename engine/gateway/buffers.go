package gateway

import "sync"

// largestBuffer is the size of the largest buffer, in bytes, that the pool keeps.
const largestBuffer = 4 << 20

// buffers is a pool of buffers. Every call of a session contains its whole history, so most garbage of a call would be its
// window and its body.
type buffers struct{ pool sync.Pool } // of *[]byte

// take returns an empty buffer that nobody else uses.
func (b *buffers) take() *[]byte {
	if kept, ok := b.pool.Get().(*[]byte); ok {
		return kept
	}
	return new([]byte)
}

// give returns a buffer to the pool. Nobody may read it any more.
func (b *buffers) give(buffer *[]byte) {
	if cap(*buffer) <= largestBuffer {
		*buffer = (*buffer)[:0]
		b.pool.Put(buffer)
	}
}
