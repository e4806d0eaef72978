//go:build linux

package badgerstore

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Every file that a running store has mapped for writing has the blocks that will be written.
func TestMapsHaveBlocks(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	mustCommit(t, s, pair("k", "1"))
	for _, pattern := range []string{"*/*.mem", "*/*.vlog", "*/DISCARD"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) < 2 {
			t.Fatalf("%s matches %q, error %v", pattern, names, err)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			blocks := info.Sys().(*syscall.Stat_t).Blocks * 512
			if want := min(max(info.Size(), 1), logChunk); blocks < want {
				t.Errorf("%s has %d bytes in blocks, %d are to be written", name, blocks, want)
			}
		}
	}
}
