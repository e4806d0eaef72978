package engine

import (
	"crypto/rand"
	"io"
	"log/slog"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// openRecords makes ready what all records need; clock and entropy are the system's where they are nil.
func (e *Engine) openRecords(s store.Store, log *slog.Logger, clock func() time.Time, entropy io.Reader, alone bool) {
	e.store, e.log, e.clock, e.entropy, e.alone = longValues(s), log, clock, entropy, alone
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.clock == nil {
		e.clock = time.Now
	}
	if e.entropy == nil {
		e.entropy = rand.Reader
	}
	e.locks = newLocks()
	e.removed.main.Store(true)
	e.removed.loose.Store(true)
}

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
