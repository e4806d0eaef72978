package badgerstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// If acknowledged commits cannot be recovered, the store reports that and accepts no more until it is repaired,
// however often it is opened. All other commits are there, and the original log is kept.
func TestLostCommits(t *testing.T) {
	_, killed := flipFolders(t)
	log := filepath.Join("main", "00001"+wal.Extension)
	healthy, err := os.ReadFile(filepath.Join(killed, log))
	if err != nil {
		t.Fatal(err)
	}
	written := len(bytes.TrimRight(healthy, "\x00"))
	smashed := func(from, to int) []byte {
		data := bytes.Clone(healthy)
		for i := from; i < to; i++ {
			data[i] ^= 0xa5
		}
		return data
	}
	for name, c := range map[string]struct {
		data []byte
		lost int // of the commits
	}{
		"in the midst":    {smashed(written/2, written/2+300), 2},
		"at the end":      {smashed(written-300, written), 1},
		"at the start":    {smashed(wal.Header, 300), 1},
		"all":             {smashed(wal.Header, written), flipCommits / 2},
		"zeros at start":  {append(make([]byte, 1000), healthy[1000:]...), flipCommits / 2},
		"zeros at end":    {append(bytes.Clone(healthy[:written-300]), make([]byte, 400)...), 1},
		"without the log": {nil, flipCommits / 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := copyApart(killed, dir); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, log)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if c.data != nil {
				if err := os.WriteFile(file, c.data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				s, err := openSmall(dir)
				if err != nil {
					t.Fatal(err)
				}
				lost := 0
				for n := range flipCommits {
					if read(t, store.Seal(s), string(damageKey("k", n*flipPairs))) == "" {
						lost++
					}
				}
				if lost == 0 || lost > c.lost {
					t.Errorf("%d commits are lost, at most %d can be", lost, c.lost)
				}
				if err := s.Commit(t.Context(), "acme", pair("k", "1")); !errors.Is(err, store.ErrDamaged) {
					t.Errorf("a write: %v", err)
				}
				mustCommit(t, s, pair("z", "1"))
				list := s.Findings()
				if len(list) != 1 || !list[0].Lost || list[0].Database != "main" {
					t.Fatalf("found %+v", list)
				}
				if c.data != nil && list[0].Kept != "" {
					kept, err := wal.Read(filepath.Join(dir, damagedFolder, list[0].Kept))
					if err != nil || !bytes.HasPrefix(kept, bytes.TrimRight(c.data, "\x00")) {
						t.Errorf("the log was not kept, error %v", err)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s, err := openTuned(Options{Dir: dir, FreeSpace: plenty, Repair: true}, small)
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, s, pair("k", "1"))
			if err := errors.Join(s.Repaired(), s.Close()); err != nil {
				t.Fatal(err)
			}
			if s, err = openSmall(dir); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			mustCommit(t, s, pair("k", "2"))
			if list := s.Findings(); len(list) > 0 {
				t.Errorf("after the repair: %+v", list)
			}
		})
	}
}

// A killed process leaves a transaction without its end. That is not damage.
func TestTornEndIsNoDamage(t *testing.T) {
	_, killed := flipFolders(t)
	file := filepath.Join(killed, "main", "00001"+wal.Extension)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	written := len(bytes.TrimRight(data, "\x00"))
	// What a next commit would have started to write: the first half of an existing one.
	s := wal.Scan(bytes.Clone(data), flipCommits/2, commitMark)
	last := s.Whole[len(s.Whole)-1]
	for cut := range 40 {
		torn := append(bytes.Clone(data[:last.End]), data[last.Start:last.Start+(last.End-last.Start)*cut/40]...)
		torn = append(torn, make([]byte, 400)...)
		if found := wal.Scan(torn, flipCommits/2, commitMark); len(found.Flaws) > 0 || len(found.Whole) != len(s.Whole) {
			t.Errorf("cut at %d of %d: %+v", cut, written, found.Flaws)
		}
	}
}
