package direct

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

// Badger is the release that this package was written for. Before another one is taken, ensureRoomForWrite, writeToLSM
// and what Badger does around them are to be read anew.
func TestRelease(t *testing.T) {
	required, err := os.ReadFile(filepath.FromSlash("../../../../go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(required), module+" "+release+"\n") {
		t.Errorf("go.mod does not require %s %s", module, release)
	}
	if !Known() {
		t.Error("transactions go through Badger's goroutines")
	}
	if same(reflect.TypeFor[struct{ Key, Value []byte }](), reflect.TypeFor[struct{ Value, Key []byte }]()) {
		t.Error("types with fields in other places are taken for the same")
	}
}

// Both ways leave the same entries in the log, and the same state.
func TestLogs(t *testing.T) {
	const versions = 50
	commits := []func(*Entries, *badger.DB, uint64) error{(*Entries).Commit, (*Entries).commitAt}
	logs := make([][][]string, len(commits)) // the entries of each transaction, in order
	for i, commit := range commits {
		random := rand.New(rand.NewPCG(5, 6))
		dir := t.TempDir()
		open := func() *badger.DB {
			t.Helper()
			db, err := badger.OpenManaged(badger.DefaultOptions(dir).WithLogger(nil).WithNumVersionsToKeep(1 << 30))
			if err != nil {
				t.Fatal(err)
			}
			return db
		}
		db := open()
		var states []map[string]string
		state := map[string]string{}
		for version := uint64(1); version <= versions; version++ {
			var e Entries
			for _, n := range random.Perm(30)[:1+random.IntN(8)] {
				key := []byte{'k', byte(n)}
				if random.IntN(3) == 0 {
					e.Delete(key, version)
					delete(state, string(key))
					continue
				}
				value := bytes.Repeat([]byte{byte(version)}, random.IntN(5000))
				e.Put(key, value, version)
				state[string(key)] = string(value)
			}
			if err := commit(&e, db, version); err != nil {
				t.Fatal(err)
			}
			copied := maps.Clone(state)
			states = append(states, copied)
		}
		log, err := os.ReadFile(filepath.Join(dir, "00001"+wal.Extension))
		if err != nil {
			t.Fatal(err)
		}
		logs[i] = transactions(log)
		for _, again := range []bool{false, true} {
			if again { // from the log or from the table that Badger makes of it
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				db = open()
			}
			for at, want := range states {
				if got := read(t, db, uint64(at+1)); !reflect.DeepEqual(got, want) {
					t.Fatalf("way %d, opened again: %t: version %d has %d keys, want %d", i, again, at+1, len(got), len(want))
				}
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(logs[0]) != versions || !reflect.DeepEqual(logs[0], logs[1]) {
		t.Errorf("the logs of %d and %d transactions differ", len(logs[0]), len(logs[1]))
	}
}

// transactions gives the entries of each transaction of a log, sorted, because Badger writes them in no order.
func transactions(log []byte) (all [][]string) {
	var entries []string
	for at := wal.Header; ; {
		_, _, end, ok := wal.Frame(log, at)
		if !ok {
			return all
		}
		entries = append(entries, string(log[at:end]))
		if log[at] == wal.End {
			slices.Sort(entries)
			all, entries = append(all, entries), nil
		}
		at = end
	}
}

// read gives all that stands at a version.
func read(t *testing.T, db *badger.DB, version uint64) map[string]string {
	t.Helper()
	txn := db.NewTransactionAt(version, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.DefaultIteratorOptions)
	defer it.Close()
	state := map[string]string{}
	for it.Rewind(); it.Valid(); it.Next() {
		value, err := it.Item().ValueCopy(nil)
		if err != nil {
			t.Fatal(err)
		}
		state[string(it.Item().Key())] = string(value)
	}
	return state
}
