package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
)

const damagePairs = 400

func damageKey(sort string, i int) []byte { return fmt.Appendf(nil, "%s%04d", sort, i) }

// damageValue returns a value that is incompressible and unlike any other.
func damageValue(i int) string {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	v := make([]byte, 100+random.IntN(200))
	for j := range v {
		v[j] = byte(random.Uint32())
	}
	return string(v)
}

// TestDamage flips bits in copies of a data folder, in its tables and in its logs. Whatever Badger makes of that, a
// sealed read returns correct bytes, Damaged, or nothing.
func TestDamage(t *testing.T) {
	for _, file := range []string{"main/*.sst", "loose/*.sst", "main/*.mem", "loose/*.mem"} {
		t.Run(file, func(t *testing.T) {
			healthy := damageFolder(t, filepath.Ext(file) == ".mem")
			random := rand.New(rand.NewPCG(1, 2))
			lost := 0
			for i := range 12 {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(healthy)); err != nil {
					t.Fatal(err)
				}
				// The end of a table says how to read the rest, so it is tested separately.
				at := flip(t, filepath.Join(dir, file), random, i%4 == 0)
				lost += readDamaged(t, dir, at)
			}
			if lost == 0 {
				t.Error("no flip did any harm: the test tells nothing")
			}
		})
	}
}

// damageFolder fills a store. Closed, its folder has tables; copied while it runs, it has logs.
func damageFolder(t *testing.T, logs bool) string {
	t.Helper()
	dir := t.TempDir()
	s := store.Seal(open(t, dir))
	for _, sort := range []string{"k", "z"} {
		var b store.Batch
		for i := range damagePairs {
			b.Put = append(b.Put, store.Pair{Key: damageKey(sort, i), Value: []byte(damageValue(i))})
			if i%10 == 9 {
				mustCommit(t, s, b)
				b = store.Batch{}
			}
		}
	}
	if !logs {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	defer s.Close()
	running := copyRunning(t, dir)
	// Logs are created long and sparse. Without their empty ends the many copies of this one are small.
	for _, name := range []string{"main/00001.mem", "loose/00001.mem"} {
		name = filepath.Join(running, name)
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, int64(len(bytes.TrimRight(data, "\x00")))+64); err != nil {
			t.Fatal(err)
		}
	}
	return running
}

// flip changes one bit in the written part of the one file that matches, and returns its position.
func flip(t *testing.T, pattern string, random *rand.Rand, atEnd bool) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 { // There may be a next log, which is empty.
		t.Fatalf("%s matches %q, error %v", pattern, names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	written := len(bytes.TrimRight(data, "\x00"))
	at, bit := random.IntN(written), random.IntN(8)
	if atEnd {
		at = written - 1 - random.IntN(12)
	}
	data[at] ^= 1 << bit
	if filepath.Ext(names[0]) == wal.Extension {
		copy(data[at:], "more than a bit, because one bit of a log is turned back")
	}
	if err := os.WriteFile(names[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("bit %d of byte %d of %d in %s", bit, at, written, filepath.Base(names[0]))
}

// readDamaged returns the number of pairs that can no longer be read.
func readDamaged(t *testing.T, dir, at string) (lost int) {
	t.Helper()
	bare, err := Open(Options{Dir: dir, FreeSpace: plenty})
	if err != nil {
		t.Log(at, "keeps the store from opening:", err)
		return 1
	}
	s := store.Seal(bare)
	defer s.Close()
	for _, sort := range []string{"k", "z"} {
		var q store.Query
		for i := range damagePairs {
			q.Keys = append(q.Keys, damageKey(sort, i))
		}
		up := store.Range{From: []byte(sort), To: []byte(sort + "~")}
		down := up
		down.Reverse = true
		q.Ranges = []store.Range{up, down}
		res, err := s.Read(t.Context(), "acme", q)
		if err != nil {
			t.Log(at, "makes a read fail:", err)
			return 1
		}
		for _, items := range append(res.Ranges, res.Keys) {
			for _, it := range items {
				var i int
				if _, err := fmt.Sscanf(string(it.Key[1:]), "%d", &i); err != nil {
					t.Errorf("%s: a read answers key %q", at, it.Key)
				}
				switch {
				case it.Value == nil:
					lost++
				case string(it.Value) != damageValue(i):
					t.Errorf("%s: a read answers wrong bytes for %q", at, it.Key)
				}
			}
			lost += damagePairs - len(items)
		}
	}
	t.Log(at, "loses", lost)
	return lost
}

// TestPanic checks that damage on which Badger panics becomes an error, without the text of the panic.
func TestPanic(t *testing.T) {
	read := func() (err error) {
		defer recoverDamage(&err)
		panic("the key of a customer")
	}
	if err := read(); !errors.Is(err, errUnreadable) || strings.Contains(err.Error(), "customer") {
		t.Errorf("a panic became %v", err)
	}
}
