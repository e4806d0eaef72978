package badgerstore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// TestValueLogIsLeft holds that the value log, and it alone, is not synced with each commit, and that it may be left: the
// longest values that a store takes are not in it.
func TestValueLogIsLeft(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	sync := valueLogSync(s.main.db)
	if sync == nil || *sync || !s.main.db.Opts().SyncWrites {
		t.Fatalf("the value log is synced: %v, the write-ahead log: %t", sync, s.main.db.Opts().SyncWrites)
	}
	value := benchValue(store.MaxValue)
	for i := range 4 {
		mustCommit(t, s, store.Batch{Put: []store.Pair{{Key: fmt.Appendf(nil, "k%d", i), Value: value}}})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*", "*.vlog"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%v, %v", logs, err)
	}
	const header = 20 // the key's id and a part of the initialisation vector
	for _, name := range logs {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if rest := content[min(header, len(content)):]; len(bytes.Trim(rest, "\x00")) > 0 {
			t.Errorf("%s has something beside its header", name)
		}
	}
}
