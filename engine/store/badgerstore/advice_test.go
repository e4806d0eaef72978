//go:build linux

package badgerstore

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// writtenBytes returns the number of bytes that the process has written to disks.
func writtenBytes(t testing.TB) (n int64) {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(raw)) {
		if _, err := fmt.Sscanf(line, "write_bytes: %d", &n); err == nil {
			return n
		}
	}
	t.Skip("the system does not count written bytes")
	return 0
}

// Synced commits write about as much as they contain, also far from the log's start, where read-ahead would make
// large folios.
func TestBytesWritten(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	value := benchValue(9 << 10)
	commit := func(n int) {
		mustCommit(t, s, store.Batch{Put: []store.Pair{{Key: fmt.Appendf(nil, "k%06d", n), Value: value}}})
	}
	const before, commits, bound = 32 << 20, 2000, 3
	large := benchValue(store.MaxValue)
	for n := 0; s.main.log.written < before; n++ {
		mustCommit(t, s, store.Batch{Put: []store.Pair{{Key: fmt.Appendf(nil, "l%06d", n), Value: large}}})
	}
	log := s.main.log.id
	start := writtenBytes(t)
	for n := range commits {
		commit(n)
	}
	wrote := writtenBytes(t) - start
	if wrote == 0 {
		t.Skip("the file system does not count what is written")
	}
	if s.main.log.id != log {
		t.Fatal("the log ended meanwhile, so that tables are counted, too")
	}
	if most := int64(bound * commits * len(value)); wrote > most {
		t.Errorf("%d commits of %d bytes wrote %d bytes, at most %d are right", commits, len(value), wrote, most)
	}
	t.Logf("%d bytes for each commit of %d", wrote/commits, len(value))
}
