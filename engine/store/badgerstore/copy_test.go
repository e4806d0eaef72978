package badgerstore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// fingerprints returns the names, modes and contents of all files in a folder.
func fingerprints(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		all[path] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime(), sha256.Sum256(data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A copy shows what a killed process left, and no byte of its folder changes, even if there is much to compact.
func TestCopyChangesNothing(t *testing.T) {
	for _, killed := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "data")
		if killed {
			runAndKill(t, dir)
		}
		// Each opening leaves tables, enough that a real opening of the folder would merge them.
		for n := range 8 {
			s := open(t, dir)
			for _, sort := range []string{"k", "z"} {
				mustCommit(t, s, pair(fmt.Sprint(sort, "/copy/", n), fmt.Sprint(n)))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if killed {
			runAndKill(t, dir)
		}
		before := fingerprints(t, dir)
		c, err := OpenCopy(Options{Dir: dir, FreeSpace: plenty})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 8 {
			for _, sort := range []string{"k", "z"} {
				if got := read(t, c.Store, fmt.Sprint(sort, "/copy/", n)); got != fmt.Sprint(n) {
					t.Errorf("the copy reads %q as record %d", got, n)
				}
			}
		}
		records := 0
		err = store.Snapshot(t.Context(), store.Seal(c), func(string, store.Item) error { records++; return nil })
		if err != nil || records < 16 || killed && records < 1000 {
			t.Errorf("the copy shows %d records, error %v", records, err)
		}
		if _, err := Open(Options{Dir: dir, FreeSpace: plenty}); !errors.Is(err, ErrLocked) {
			t.Errorf("the folder can be opened under its copy: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if after := fingerprints(t, dir); !reflect.DeepEqual(after, before) {
			t.Errorf("killed %t: the folder changed\nfrom %v\nto   %v", killed, before, after)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); err != nil || len(left) > 0 {
			t.Errorf("the copy leaves %q behind: %v", left, err)
		}
		s := open(t, dir)
		if _, err := OpenCopy(Options{Dir: dir, FreeSpace: plenty}); !errors.Is(err, ErrLocked) {
			t.Errorf("a copy of an open store: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenCopy(Options{Dir: t.TempDir()}); !errors.Is(err, ErrNoStore) {
		t.Errorf("a copy of an empty folder: %v", err)
	}
}
