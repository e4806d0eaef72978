package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// smash overwrites a part of a file, which may be mapped.
func smash(t *testing.T, name string, from, bytes int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, bytes)
	if _, err := f.ReadAt(data, from); err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] ^= 0xa5
	}
	_, err = f.WriteAt(data, from)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// standing counts the pairs of a folder of flipFolders that are read correctly, and those whose reading fails. All
// others are absent.
func standing(t *testing.T, s *Store, sort string) (there, failed int) {
	t.Helper()
	for i := range flipCommits * flipPairs {
		res, err := store.Seal(s).Read(t.Context(), "acme", store.Query{Keys: [][]byte{damageKey(sort, i)}})
		switch {
		case err != nil || res.Keys[0].Damaged:
			failed++
		case res.Keys[0].Value != nil:
			there++
			if string(res.Keys[0].Value) != damageValue(i) {
				t.Errorf("%s%d has other bytes", sort, i)
			}
		}
	}
	return there, failed
}

// Damaged blocks of a table are noticed when the store is opened. Their content is not reported as absent, nothing is
// written until the folder is repaired, and all else is there.
func TestDamagedTable(t *testing.T) {
	const pairs = flipCommits * flipPairs
	for name, c := range map[string]struct {
		from, bytes int64
		most        int // pairs that may be lost
	}{
		"a block":     {8_000, 1, 40},
		"two blocks":  {8_000, 4 << 10, 60},
		"the first":   {0, 1, 40},
		"every block": {0, 16_000, pairs},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := flipFolders(t)
			names, err := filepath.Glob(filepath.Join(dir, "main", "*.sst"))
			if err != nil || len(names) == 0 {
				t.Fatal(names, err)
			}
			smash(t, names[0], c.from, c.bytes)
			for range 2 {
				s, err := openSmall(dir)
				if err != nil {
					t.Fatal(err)
				}
				there, failed := standing(t, s, "k")
				if failed == 0 || failed > c.most || there+failed != pairs {
					t.Errorf("%d pairs are read, %d answer an error, all are %d", there, failed, pairs)
				}
				if there, _ := standing(t, s, "z"); there != pairs {
					t.Errorf("%d unsynced pairs are read of %d", there, pairs)
				}
				if err := s.Commit(t.Context(), "acme", pair("k", "1")); !errors.Is(err, store.ErrDamaged) {
					t.Errorf("a write: %v", err)
				}
				if err := s.Failed(); !errors.Is(err, store.ErrDamaged) {
					t.Errorf("the store says of itself: %v", err)
				}
				list := s.Findings()
				if len(list) != 1 || !list[0].Lost || list[0].File != filepath.Base(names[0]) {
					t.Fatalf("found %+v", list)
				}
				if !list[0].Doubts("acme") || list[0].Spans[len(list[0].Spans)-1].To != nil && list[0].Doubts("acmf") {
					t.Errorf("not only what acme stored is in doubt: %+v", list)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s, err := openTuned(Options{Dir: dir, FreeSpace: plenty, Repair: true}, small)
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, s, pair("l", "1"))
			if err := errors.Join(s.Repaired(), s.Close()); err != nil {
				t.Fatal(err)
			}
			if s, err = openSmall(dir); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			mustCommit(t, s, pair("l", "2"))
			if err := s.Compact(t.Context(), false); err != nil {
				t.Error(err)
			}
			there, failed := standing(t, s, "k")
			if failed > 0 || there < pairs-c.most || there == pairs || len(s.Findings()) > 0 {
				t.Errorf("after the repair %d pairs are read of %d, %d fail, found %+v", there, pairs, failed, s.Findings())
			}
		})
	}
}

// A block that is damaged while the store runs is noticed when it is read. From then on nothing is written, because a
// record that seems to be absent may be in such a block.
func TestTableFailsWhileRunning(t *testing.T) {
	dir, _ := flipFolders(t)
	s, err := openSmall(dir)
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "main", "*.sst"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	mustCommit(t, s, pair("l", "1"))
	for _, name := range names {
		smash(t, name, 1000, 16<<10)
	}
	new := store.Batch{Put: pair("k", "1").Put}
	new.Put[0].Key = damageKey("k", 60)
	new.Expect = []store.Expect{{Key: new.Put[0].Key}}
	if err := s.Commit(t.Context(), "acme", new); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a write that expects a record in the block to be absent: %v", err)
	}
	there, failed := standing(t, s, "k")
	if failed == 0 || there+failed != flipCommits*flipPairs {
		t.Errorf("%d pairs are read, %d answer an error, all are %d", there, failed, flipCommits*flipPairs)
	}
	if err := s.Failed(); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("the store says of itself: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openSmall(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if list := s.Findings(); len(list) == 0 {
		t.Error("the next start finds nothing")
	}
}
