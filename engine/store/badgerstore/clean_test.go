package badgerstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

func init() { readPause = 0 }

// closed returns a cleanly closed folder, and a table of its main database.
func closed(t *testing.T) (dir, table string) {
	t.Helper()
	dir, _ = flipFolders(t)
	s, err := openSmall(dir)
	if err == nil {
		all := <-s.main.read // If it is closed before all tables are read, the database has no mark.
		s.main.read <- all
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "main", "*.sst"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return dir, names[0]
}

func marked(t *testing.T, dir string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(dir, "main", cleanName))
	return err == nil
}

// Tables of a cleanly closed database are read once it is open. The mark only exists while the database is closed,
// and only if all tables were read.
func TestMarkOfCleanStop(t *testing.T) {
	dir, _ := closed(t)
	if !marked(t, dir) {
		t.Fatal("closed in good order, the database has no mark")
	}
	s, err := openSmall(dir)
	if err != nil {
		t.Fatal(err)
	}
	if marked(t, dir) {
		t.Error("an open database has the mark, so that a killed one has it too")
	}
	if there, failed := standing(t, s, "k"); failed > 0 || there != flipCommits*flipPairs {
		t.Errorf("%d pairs are read, %d fail", there, failed)
	}
	<-s.main.read
	s.main.read <- false // as if it were closed before all tables are read
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if marked(t, dir) {
		t.Error("not all tables were read, and the database has the mark")
	}

	dir, table := closed(t)
	smash(t, table, 8_000, 1)
	if s, err = openSmall(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if len(s.Findings()) != 1 {
		t.Errorf("a table was written to since the stop: found %+v", s.Findings())
	}
}

// A compaction replaces tables while they are read for the first time: it empties their files, then removes them. Such a
// table is not damaged. One that is in use and emptied is.
func TestReadLaterBesideCompaction(t *testing.T) {
	dir, _ := closed(t)
	s, err := openSmall(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := <-s.main.read
	s.main.read <- all
	opened := make(chan struct{})
	close(opened)
	o := Options{Dir: dir}.main()
	m, err := readManifest(o)
	if err != nil {
		t.Fatal(err)
	}
	used := m.files(o.Dir)
	replaced := filepath.Join(o.Dir, "999999.sst")
	for _, step := range []func() error{
		func() error { return os.WriteFile(replaced, nil, 0o600) }, // emptied
		func() error { return os.Remove(replaced) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if !s.main.readLater(t.Context(), opened, append([]tableFile{{name: replaced}}, used...)) {
			t.Fatal("a table that is no longer in use counts as damaged")
		}
	}
	if err := s.Commit(t.Context(), "acme", pair("k", "1")); err != nil {
		t.Fatal(err)
	}
	smash(t, used[0].name, 8_000, 1)
	if s.main.readLater(t.Context(), opened, append([]tableFile{{name: replaced}}, used...)) {
		t.Error("a damaged table that is in use was read and nothing found")
	}
	if err := s.Commit(t.Context(), "acme", pair("k", "2")); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a write: %v", err)
	}
}

// Bit rot in a table that the file system does not notice is found once the database is open, and removed by the next
// start.
func TestRotBehindMark(t *testing.T) {
	dir, table := closed(t)
	smash(t, table, 8_000, 1)
	o := Options{Dir: dir}.main()
	if err := markClean(o); err != nil {
		t.Fatal(err)
	}
	s, err := openSmall(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := <-s.main.read
	s.main.read <- all
	if all {
		t.Error("the damaged table was read and nothing found")
	}
	if len(s.Findings()) > 0 {
		t.Fatal("it was found before the store was open, so that nothing is tested")
	}
	if err := s.Commit(t.Context(), "acme", pair("k", "1")); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a write: %v", err)
	}
	if there, failed := standing(t, s, "k"); failed == 0 || there+failed != flipCommits*flipPairs {
		t.Errorf("%d pairs are read, %d answer an error, all are %d", there, failed, flipCommits*flipPairs)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openSmall(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if list := s.Findings(); len(list) != 1 || list[0].File != filepath.Base(table) {
		t.Errorf("the next start finds %+v", list)
	}
}
