package badgerstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "open")
	for generation := range 3 {
		s := open(t, dir)
		for before := range generation {
			for _, sort := range []string{"k", "z"} {
				if got := read(t, s, fmt.Sprint(sort, before)); got != fmt.Sprint(before) {
					t.Errorf("opening %d reads %q of opening %d", generation, got, before)
				}
			}
		}
		mustCommit(t, s, pair(fmt.Sprint("k", generation), fmt.Sprint(generation)))
		mustCommit(t, s, pair(fmt.Sprint("z", generation), fmt.Sprint(generation)))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{dir, filepath.Join(dir, "main"), filepath.Join(dir, "loose")} {
		if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: mode %v, error %v", folder, info.Mode(), err)
		}
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if second, err := Open(Options{Dir: dir, FreeSpace: plenty}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second Open: %v, %v", second, err)
	}
	mustCommit(t, s, pair("k", "1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(Options{}); err == nil {
		t.Errorf("Open without a folder: %v", s)
	}
}

// killed makes this test binary a child that writes until it is killed.
const killed = "BADGERSTORE_TEST_KILLED_IN"

const killWriters, killParts = 8, 3

// killBatch is the n-th batch of a writer. Writers with odd numbers write loose keys.
func killBatch(writer, n int) store.Batch {
	sort := []string{"k", "z"}[writer%2]
	var b store.Batch
	for part := range killParts {
		key := fmt.Appendf(nil, "%s/%d/%06d/%d", sort, writer, n, part)
		b.Put = append(b.Put, store.Pair{Key: key, Value: fmt.Appendf(nil, "%s of %0500d", key, n)})
	}
	return b
}

// TestKill kills a process during its commits. What it had acknowledged is there, and no batch in part.
func TestKill(t *testing.T) {
	if dir := os.Getenv(killed); dir != "" {
		writeUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	acknowledged := runAndKill(t, dir)
	s := store.Seal(open(t, dir))
	defer s.Close()
	sorts := map[bool]int{}
	for writer := range killWriters {
		whole := 0
		for ; ; whole++ {
			b := killBatch(writer, whole)
			var q store.Query
			for _, p := range b.Put {
				q.Keys = append(q.Keys, p.Key)
			}
			res, err := s.Read(t.Context(), "acme", q)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for i, it := range res.Keys {
				if string(it.Value) == string(b.Put[i].Value) {
					found++
				}
			}
			if found != 0 && found != killParts {
				t.Errorf("writer %d: %d of %d parts of batch %d are there", writer, found, killParts, whole)
			}
			if found == 0 {
				break
			}
		}
		if whole < acknowledged[writer] {
			t.Errorf("writer %d: %d batches are there, %d were acknowledged", writer, whole, acknowledged[writer])
		}
		sorts[writer%2 == 1] += acknowledged[writer]
	}
	if sorts[true] == 0 || sorts[false] == 0 {
		t.Errorf("%d synced and %d loose batches were acknowledged: the test tells nothing", sorts[false], sorts[true])
	}
}

// runAndKill returns how many batches each writer of the child had acknowledged when it was killed.
func runAndKill(t *testing.T, dir string) [killWriters]int {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestKill$")
	child.Env = append(os.Environ(), killed+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var acknowledged [killWriters]int
	lines := bufio.NewScanner(out)
	sorts := [2]int{} // synced and loose batches: the disk may be busy, so that there are many loose ones only
	for n, dead := 0, false; lines.Scan(); n++ {
		var writer, batch int
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &writer, &batch); err != nil || batch != acknowledged[writer] {
			t.Errorf("the child says %q", lines.Text())
			break
		}
		acknowledged[writer]++
		sorts[writer%2]++
		if n >= 2000 && min(sorts[0], sorts[1]) >= 20 && !dead {
			dead = true
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended by itself: %v", err)
	}
	return acknowledged
}

func writeUntilKilled(t *testing.T, dir string) {
	s := store.Seal(open(t, dir))
	failed := make(chan error)
	for writer := range killWriters {
		go func() {
			for n := 0; ; n++ {
				if err := s.Commit(t.Context(), "acme", killBatch(writer, n)); err != nil {
					failed <- err
				}
				if _, err := io.WriteString(os.Stdout, fmt.Sprintln(writer, n)); err != nil {
					failed <- err
				}
			}
		}()
	}
	t.Fatal(<-failed)
}

// TestFolderRemoved checks that a store whose folder was removed can still be closed.
func TestFolderRemoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	mustCommit(t, s, store.Batch{Put: []store.Pair{{Key: []byte("k"), Value: []byte("v")}}})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("closing it: %v", err)
	}
}
