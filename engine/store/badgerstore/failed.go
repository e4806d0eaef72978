package badgerstore

import (
	"slices"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4/y"
	"github.com/klauspost/compress/s2"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// failedBlocks counts the blocks of tables that could not be read since the process started. Badger treats such a
// block as the end of the table and does not report it, but it formats the error, which is how it is noticed.
var failedBlocks atomic.Int64

type counted struct{ error }

func (e counted) Error() string {
	failedBlocks.Add(1)
	return e.error.Error()
}

func init() {
	y.ErrChecksumMismatch, s2.ErrCorrupt = counted{y.ErrChecksumMismatch}, counted{s2.ErrCorrupt}
}

// damaged returns an error for commits if acknowledged ones are lost, or if a block could not be read since the
// database was opened. The next process that opens the folder finds out which table it was.
func (d *database) damaged() error {
	if d.damage == nil && failedBlocks.Load() > d.failed {
		d.told.Do(func() {
			d.failure.log.Error("a block of a table cannot be read, so nothing is written any more: stop the server, " +
				"run `mneme verify`, which says which table it is, then `mneme repair`")
		})
		return store.ErrDamaged
	}
	return d.damage
}

// doubts reports whether any key of [from, to) may be older than what was acknowledged.
func (d *database) doubts(from, to []byte) bool {
	return slices.ContainsFunc(d.doubtful, func(s Span) bool { return s.overlaps(from, to) })
}
