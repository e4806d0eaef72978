package badgerstore

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// filesWith returns the files of a folder that contain a text.
func filesWith(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		if err == nil && bytes.Contains(raw, []byte(text)) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func compact(t *testing.T, s *Store) {
	t.Helper()
	for _, loose := range []bool{false, true} {
		if err := s.Compact(t.Context(), loose); err != nil {
			t.Fatal(err)
		}
	}
}

// After Compact, no file contains deleted or overwritten data, wherever it was: in the log, in young tables or in
// old.
func TestCompactLeavesNothingOfWhatWasDeleted(t *testing.T) {
	const secret = "confidential-text-0123456789"
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir, FreeSpace: plenty, Uncompressed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keys := func(round int) (out [][]byte) {
		for _, sort := range []string{"k", "z"} {
			out = append(out, fmt.Appendf(nil, "%s-old-%d", sort, round), fmt.Appendf(nil, "%s-gone-%d", sort, round))
		}
		return out
	}
	for round := range 3 {
		for _, key := range keys(round) {
			mustCommit(t, s, store.Batch{Put: []store.Pair{{Key: key, Value: []byte(secret)}}})
		}
		if round < 2 { // the last round remains in memory and in the log
			compact(t, s)
		}
	}
	mustCommit(t, s, pair("k-kept", "kept-text-0123456789"))
	if len(filesWith(t, dir, secret)) == 0 {
		t.Fatal("the test does not see what is stored")
	}
	for round := range 3 {
		for i, key := range keys(round) {
			if i%2 == 0 {
				mustCommit(t, s, store.Batch{Put: []store.Pair{{Key: key, Value: []byte("new")}}})
			} else {
				mustCommit(t, s, store.Batch{Delete: [][]byte{key}})
			}
		}
	}
	compact(t, s)
	if names := filesWith(t, dir, secret); len(names) > 0 {
		t.Errorf("found in %v", names)
	}
	if got := read(t, s, "k-kept"); got != "kept-text-0123456789" || len(filesWith(t, dir, got)) == 0 {
		t.Errorf("what was kept reads %q", got)
	}
}

// Writers and readers continue while the files are rewritten, and lose nothing, then or after the next opening.
func TestCompactBesideWriters(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	const writers, each = 4, 150
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := range each {
				sort := []string{"k", "z"}[w%2]
				key := fmt.Sprintf("%s/%d/%d", sort, w, n)
				mustCommit(t, s, pair(key, key))
				if got := read(t, s, key); got != key {
					t.Errorf("%s reads %q", key, got)
				}
			}
		})
	}
	for range 5 {
		compact(t, s)
	}
	group.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	defer s.Close()
	for w := range writers {
		for n := range each {
			key := fmt.Sprintf("%s/%d/%d", []string{"k", "z"}[w%2], w, n)
			if got := read(t, s, key); got != key {
				t.Fatalf("%s reads %q", key, got)
			}
		}
	}
}
