package badgerstore

import (
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// After each commit, there is a next log that Badger has not started: also if many short values fill its memory long
// before the log, and if few long ones do.
func TestTheNextLogIsAlwaysReady(t *testing.T) {
	if !canAllocate {
		t.Skip("the next log is made where files can be given blocks")
	}
	for name, shape := range map[string]struct{ writes, bytes int }{"short": {4000, 1}, "long": {4, 200 << 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			defer s.Close()
			log, value := s.loose.log, benchValue(shape.bytes)
			first := log.id
			for n := 0; log.id < first+2; n++ {
				var b store.Batch
				for i := range shape.writes {
					b.Put = append(b.Put, store.Pair{Key: fmt.Appendf(nil, "z%08d-%04d", n, i), Value: value})
				}
				mustCommit(t, s, b)
				if log.off {
					t.Skip("the file system gives no blocks")
				}
				if log.next == nil {
					continue // The next commit creates it first.
				}
				if info, err := log.next.Stat(); err != nil || info.Size() != 0 {
					t.Fatalf("behind commit %d Badger writes to the next log: %v", n, err)
				}
				if n > 4000 {
					t.Fatal("Badger began no further log")
				}
			}
		})
	}
}
