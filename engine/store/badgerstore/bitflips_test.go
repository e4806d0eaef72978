package badgerstore

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore/wal"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// small configures databases that open fast, for tests that open many.
func small(o badger.Options) badger.Options {
	return o.WithMemTableSize(1 << 20).WithBaseLevelSize(levelZeroTables << 20).WithValueThreshold(32 << 10).WithBlockCacheSize(1 << 20).WithIndexCacheSize(0)
}

func openSmall(dir string) (*Store, error) {
	return openTuned(Options{Dir: dir, FreeSpace: plenty, Now: func() time.Time { return time.Unix(1e9, 0) }}, small)
}

const flipCommits, flipPairs = 40, 4

// flipFolders returns two folders with the same content: one of a closed store, with everything in tables, and one of
// a killed process, with half in tables and the rest in logs.
func flipFolders(t *testing.T) (closed, killed string) {
	t.Helper()
	running := t.TempDir()
	s, err := openSmall(running)
	if err != nil {
		t.Fatal(err)
	}
	fillFlips(t, s, 0, flipCommits/2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openSmall(running); err != nil {
		t.Fatal(err)
	}
	fillFlips(t, s, flipCommits/2, flipCommits)
	killed = copyRunning(t, running)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return running, killed
}

// copyRunning returns a copy of a running store's folder, as a killed process would have left it. While Badger writes or
// removes a table, a copy could contain a manifest that is newer than the tables beside it, so it is made again.
func copyRunning(t *testing.T, running string) string {
	t.Helper()
	state := func() string {
		var b strings.Builder
		err := filepath.WalkDir(running, func(path string, e fs.DirEntry, err error) error {
			b.WriteString(path)
			if err == nil && e.Name() == badger.ManifestFilename {
				data, err := os.ReadFile(path)
				b.Write(data)
				return err
			}
			return err
		})
		if err != nil {
			return ""
		}
		return b.String()
	}
	for {
		before, dir := state(), t.TempDir()
		err := os.CopyFS(dir, os.DirFS(running))
		if before == "" || before != state() {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
}

// copyApart copies a store as copyStore does, and its tables too. copyStore links them, but an open store compacts, and
// Badger truncates a table that it has compacted.
func copyApart(from, to string) error {
	if err := copyStore(from, to); err != nil {
		return err
	}
	for _, part := range databases {
		tables, err := filepath.Glob(filepath.Join(to, part, "*.sst"))
		if err != nil {
			return err
		}
		for _, name := range tables {
			data, err := os.ReadFile(name)
			if err == nil {
				err = os.Remove(name)
			}
			if err == nil {
				err = os.WriteFile(name, data, 0o600)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// fillFlips makes the commits of a range.
func fillFlips(t *testing.T, s *Store, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		for _, sort := range []string{"k", "z"} {
			var b store.Batch
			for i := n * flipPairs; i < (n+1)*flipPairs; i++ {
				b.Put = append(b.Put, store.Pair{Key: damageKey(sort, i), Value: []byte(damageValue(i))})
			}
			mustCommit(t, store.Seal(s), b)
		}
	}
}

// flipClass returns the kind of the byte at an offset of a file.
func flipClass(name string, data []byte, at int) string {
	kind := filepath.Base(filepath.Dir(name)) + "/" + strings.TrimLeft(filepath.Base(name), "0123456789")
	switch filepath.Ext(name) {
	case ".mem":
		return kind + " " + logClass(data, at)
	case ".sst":
		if at >= len(data)-16 {
			return kind + " footer"
		}
		if at >= len(data)/2 {
			return kind + " later half with the index"
		}
		return kind + " earlier half"
	}
	if filepath.Base(name) == "MANIFEST" && at < 8 {
		return kind + " header"
	}
	return kind
}

func logClass(data []byte, at int) string {
	if at < 8 {
		return "key id"
	}
	if at < wal.Header {
		return "IV"
	}
	for place := wal.Header; ; {
		e, ok := wal.ReadEntry(data, place)
		if !ok {
			return "zeros behind the end"
		}
		if at >= e.Next {
			place = e.Next
			continue
		}
		key, value, end, _ := wal.Frame(data, place)
		what := map[bool]string{true: "end: ", false: "entry: "}[e.Meta&wal.End != 0]
		switch {
		case at < place+2:
			return what + "meta"
		case at < key:
			return what + "lengths, expiry"
		case at < value:
			return what + "key"
		case at < end-4:
			return what + "value"
		}
		return what + "checksum"
	}
}

// TestCampaignBitFlips flips single bits in every file of a data folder. Afterwards everything acknowledged is there,
// or the damage is reported; it is never silent.
func TestCampaignBitFlips(t *testing.T) {
	seed := campaign.Seed(t)
	closed, killed := flipFolders(t)
	matrix := map[string]map[string]int{}
	for i, healthy := range []string{closed, killed} {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		for _, name := range folderFiles(t, healthy) {
			data, err := os.ReadFile(filepath.Join(healthy, name))
			if err != nil {
				t.Fatal(err)
			}
			written := len(bytes.TrimRight(data, "\x00"))
			flips := campaign.Size(1, 60)
			if filepath.Ext(name) == wal.Extension {
				flips = campaign.Size(12, 400)
				written += 8
			}
			for range flips {
				at, bit := random.IntN(max(written, min(len(data), 1), 1)), random.IntN(8)
				if at >= len(data) {
					continue
				}
				class := flipClass(name, data, at)
				outcome := flipOnce(t, healthy, name, data, at, bit)
				if matrix[class] == nil {
					matrix[class] = map[string]int{}
				}
				matrix[class][outcome]++
				if outcome == "silent" {
					t.Errorf("bit %d of byte %d of %s (%s) loses records and nothing tells", bit, at, name, class)
				}
				if filepath.Ext(name) == wal.Extension && strings.HasPrefix(outcome, "found, with") {
					t.Errorf("bit %d of byte %d of %s (%s) is not corrected", bit, at, name, class)
				}
			}
		}
	}
	for _, class := range slices.Sorted(maps.Keys(matrix)) {
		t.Logf("%-45s %v", class, matrix[class])
	}
}

func folderFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) < 8 {
		t.Fatalf("%q, error %v", names, err)
	}
	return names
}

// flipOnce returns the effect of one flip in a copy of a folder.
func flipOnce(t *testing.T, healthy, name string, data []byte, at, bit int) string {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := copyApart(healthy, dir); err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(data)
	flipped[at] ^= 1 << bit
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), flipped, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openSmall(dir)
	if err != nil {
		return "refused"
	}
	defer s.Close()
	told := len(s.Findings()) > 0
	whole := true
	for _, sort := range []string{"k", "z"} {
		there, failed := standing(t, s, sort)
		whole, told = whole && there == flipCommits*flipPairs, told || failed > 0
		if filepath.Ext(name) == ".sst" && there+failed != flipCommits*flipPairs {
			t.Errorf("bit %d of byte %d of %s: a record of a damaged block is answered as absent", bit, at, name)
		}
	}
	if err := s.ledger.lost(); err != nil {
		if err := s.Commit(t.Context(), "acme", pair("k", "1")); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("commits are lost, and a write answers %v", err)
		}
	}
	switch {
	case told && whole:
		return "found, nothing lost"
	case told:
		return "found, with loss"
	case whole:
		return "harmless"
	}
	return "silent"
}
