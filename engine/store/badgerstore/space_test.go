package badgerstore

import (
	"errors"
	"sync"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A full disk is an error, where Badger would be killed.
func TestOpenOnAFullDisk(t *testing.T) {
	full := func(string) (uint64, error) { return 1 << 20, nil }
	if s, err := Open(Options{Dir: t.TempDir(), FreeSpace: full}); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("opened %v: %v", s, err)
	}
}

func TestSpace(t *testing.T) {
	var mu sync.Mutex
	free, problem := uint64(1000), error(nil)
	set := func(f uint64, err error) {
		mu.Lock()
		defer mu.Unlock()
		free, problem = f, err
	}
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir, ReserveBytes: 1000, FreeSpace: func(asked string) (uint64, error) {
		mu.Lock()
		defer mu.Unlock()
		if asked != dir {
			t.Errorf("asked for the space of %s", asked)
		}
		return free, problem
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	remove := store.Batch{Delete: [][]byte{[]byte("k")}}
	both := pair("l", "1")
	both.Delete = remove.Delete
	for _, c := range []struct {
		free          uint64
		err           error
		write, delete bool
	}{
		{free: 1000, write: true, delete: true},
		{free: 999, delete: true},
		{free: 500, delete: true},
		{free: 499},
		{free: 1 << 40, err: errors.New("no such device")},
		{free: 1000, write: true, delete: true},
	} {
		set(c.free, c.err)
		for name, try := range map[string]struct {
			batch store.Batch
			ok    bool
		}{
			"put":            {pair("k", "1"), c.write},
			"loose put":      {pair("z", "1"), c.write},
			"put and delete": {both, c.write},
			"delete":         {remove, c.delete},
		} {
			err := s.Commit(t.Context(), "acme", try.batch)
			if (err == nil) != try.ok || (err != nil && !errors.Is(err, store.ErrNoSpace)) {
				t.Errorf("%s with %d free, error %v: %v", name, c.free, c.err, err)
			}
		}
		read(t, s, "l")
	}
	if free, err := freeSpace(dir); err != nil || free == 0 {
		t.Errorf("the file system tells %d, %v", free, err)
	}
}
