package records

import (
	"io"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// Now is the clock in UTC at the millisecond, the precision that records keep.
func (db *DB) Now() time.Time { return db.Clock().UTC().Truncate(time.Millisecond) }

// Random fills b from the source of ids. That source failing leaves nothing safe to do.
func (db *DB) Random(b []byte) {
	if _, err := io.ReadFull(db.Entropy, b); err != nil {
		panic("reading random bytes: " + err.Error())
	}
}

// NewID makes an id of n random bytes.
func (db *DB) NewID(prefix string, n int) string {
	b := make([]byte, n)
	db.Random(b)
	return prefix + ident.Alphabet.EncodeToString(b)
}

func (db *DB) NewIncarnation() (i ident.Incarnation) {
	db.Random(i[:])
	return i
}
