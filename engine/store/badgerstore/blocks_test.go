//go:build linux

package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// For every file that a running store has mapped for writing, the blocks to be written are allocated.
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

// If no blocks can be allocated, commits continue as long as the log has some, and are then refused, while tables
// cannot be written. Once there is space, everything continues, and everything acknowledged is there.
func TestNoBlocks(t *testing.T) {
	var full atomic.Bool
	fallocate = func(fd int, mode uint32, offset, length int64) error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return syscall.Fallocate(fd, mode, offset, length)
	}
	defer func() { fallocate = syscall.Fallocate }()
	dir := t.TempDir()
	s, err := openSmall(dir)
	if err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte("value"), 2_000)
	n, refused := 0, 0
	write := func() bool {
		key := fmt.Appendf(nil, "k%04d", n)
		err := s.Commit(t.Context(), "acme", store.Batch{Put: []store.Pair{{Key: key, Value: value}}})
		switch {
		case err == nil:
			n++
			return true
		case !errors.Is(err, store.ErrNoSpace):
			t.Fatalf("commit %d: %v", n, err)
		}
		refused++
		return false
	}
	starting := starved.Load()
	// Tables are written in the background, so it takes some rounds until one meets a disk without blocks.
	for round := 0; round < 2 || starved.Load() == starting && round < 100; round++ {
		for range 30 + round {
			write()
		}
		full.Store(true)
		for more := true; more && n < 10_000; {
			more = write()
		}
		full.Store(false)
		if !write() {
			t.Error("a commit is refused though there is room")
		}
	}
	if refused == 0 || starved.Load() == starting {
		t.Errorf("%d commits are refused, %d maps found no blocks: the test tells nothing", refused,
			starved.Load()-starting)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openSmall(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range n {
		if got := read(t, s, fmt.Sprintf("k%04d", i)); got != string(value) {
			t.Fatalf("commit %d of %d is lost", i, n)
		}
	}
}
