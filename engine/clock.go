package engine

import (
	"io"
	"time"
)

// now is the clock in UTC at the millisecond, the precision that records keep.
func (e *Engine) now() time.Time { return e.clock().UTC().Truncate(time.Millisecond) }

// random fills b from the source of ids. That source failing leaves nothing safe to do.
func (e *Engine) random(b []byte) {
	if _, err := io.ReadFull(e.entropy, b); err != nil {
		panic("reading random bytes: " + err.Error())
	}
}

// newID makes an id of n random bytes.
func (e *Engine) newID(prefix string, n int) string {
	b := make([]byte, n)
	e.random(b)
	return prefix + idAlphabet.EncodeToString(b)
}

func (e *Engine) newIncarnation() (i incarnation) {
	e.random(i[:])
	return i
}
