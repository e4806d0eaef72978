package pgstore

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// killed makes this test binary a child that writes to a database until it is killed.
const killed = "PGSTORE_TEST_KILLED_AT"

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

// TestKill kills a server during its commits. What it had acknowledged is there, and no batch in part.
func TestKill(t *testing.T) {
	if url := os.Getenv(killed); url != "" {
		writeUntilKilled(t, url)
		return
	}
	underBoth(t, testKill)
}

func testKill(t *testing.T, database func(testing.TB) string) {
	url := database(t)
	acknowledged := runAndKill(t, url)
	s := store.Seal(openURL(t, url))
	defer s.Close()
	for writer := range killWriters {
		whole := 0
		for ; ; whole++ {
			batch := killBatch(writer, whole)
			var keys []string
			for _, p := range batch.Put {
				keys = append(keys, string(p.Key))
			}
			found := 0
			for i, value := range read(t, s, keys...) {
				if value == string(batch.Put[i].Value) {
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
		if whole < acknowledged[writer] || acknowledged[writer] == 0 {
			t.Errorf("writer %d: %d batches are there, %d were acknowledged", writer, whole, acknowledged[writer])
		}
	}
}

// runAndKill kills a child once each of its writers has had a batch acknowledged, and returns how many batches of each
// writer were.
func runAndKill(t *testing.T, url string) [killWriters]int {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestKill$")
	child.Env = append(os.Environ(), killed+"="+url)
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
	for n, killed := 0, false; lines.Scan(); n++ {
		var writer, batch int
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &writer, &batch); err != nil || batch != acknowledged[writer] {
			t.Errorf("the child says %q", lines.Text())
			break
		}
		acknowledged[writer]++
		if !killed && n >= 1000 && !slices.Contains(acknowledged[:], 0) {
			killed = true
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

func writeUntilKilled(t *testing.T, url string) {
	s := store.Seal(openURL(t, url))
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
