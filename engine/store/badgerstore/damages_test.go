package badgerstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// grownFolder returns a folder that was closed ten times, so that it has tables on several levels, and its state
// before the last commits. Its content is that of flipFolders.
func grownFolder(t *testing.T) (grown, stale string) {
	t.Helper()
	dir := t.TempDir()
	const sessions = 10
	for session := range sessions {
		s, err := openSmall(dir)
		if err != nil {
			t.Fatal(err)
		}
		fillFlips(t, s, session*flipCommits/sessions, (session+1)*flipCommits/sessions)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if session == sessions-2 {
			stale = t.TempDir()
			if err := os.CopyFS(stale, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, stale
}

// damageCase is damage to a data folder, with the expected result of the next start: "refused", "repaired" (refused
// until a repair), "told" by findings, or "harmless", which means that all acknowledged keys are there.
type damageCase struct {
	name string
	of   string // grown, closed or killed
	want string
	do   func(t *testing.T, dir string)
}

// named returns the files of a folder that match a pattern, in order.
func named(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s matches %q, error %v", pattern, names, err)
	}
	slices.Sort(names)
	return names
}

// rewrite changes the content of the first file that matches a pattern.
func rewrite(pattern string, change func(data []byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		name := named(t, dir, pattern)[0]
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, name, change(data))
	}
}

func writeFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) { // a table may be linked
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func removed(patterns ...string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		for _, pattern := range patterns {
			for _, name := range named(t, dir, pattern) {
				if err := os.RemoveAll(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func cut(n int) func([]byte) []byte {
	return func(data []byte) []byte { return data[:len(data)-n] }
}

func flipAt(at func(size int) int) func([]byte) []byte {
	return func(data []byte) []byte {
		data[at(len(data))] ^= 0x55
		return data
	}
}

// records returns the offsets of a manifest's records, and the end of the last one.
func records(data []byte) (starts []int) {
	at := len(manifestMagic)
	for at+recordHead <= len(data) {
		starts = append(starts, at)
		at += recordHead + int(binary.BigEndian.Uint32(data[at:]))
	}
	return append(starts, at)
}

// lastRecords cuts a manifest at the end of a record.
func lastRecords(n int) func([]byte) []byte {
	return func(data []byte) []byte {
		starts := records(data)
		return data[:starts[len(starts)-1-n]]
	}
}

func allDamages(stale string) []damageCase {
	var all []damageCase
	add := func(of, want, name string, do func(*testing.T, string)) {
		all = append(all, damageCase{name, of, want, do})
	}
	from := func(names ...string) func(*testing.T, string) { // the stale folder
		return func(t *testing.T, dir string) {
			for _, name := range names {
				if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(filepath.Join(stale, name))
				if err == nil && info.IsDir() {
					err = os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(stale, name)))
				} else if err == nil {
					err = copyFile(filepath.Join(stale, name), filepath.Join(dir, name))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, part := range databases {
		for _, of := range []string{"grown", "killed"} {
			manifest := part + "/MANIFEST"
			for _, n := range []int{1, 10} {
				add(of, "refused", fmt.Sprintf("%s cut by %d", manifest, n), rewrite(manifest, cut(n)))
			}
			add(of, "refused", manifest+" without its last record", rewrite(manifest, lastRecords(1)))
			add(of, "refused", manifest+" removed", removed(manifest))
			add(of, "refused", manifest+" emptied", rewrite(manifest, func([]byte) []byte { return nil }))
			add(of, "refused", manifest+" flipped", rewrite(manifest, flipAt(func(n int) int { return n - 3 })))
			add(of, "refused", manifest+" without its last record, and no TABLES", func(t *testing.T, dir string) {
				rewrite(manifest, lastRecords(1))(t, dir)
				removed(part+"/TABLES")(t, dir)
			})
			add(of, "harmless", manifest+" with zeros behind it", rewrite(manifest, func(data []byte) []byte {
				return append(data, make([]byte, 4096)...)
			}))
		}
		add("grown", "refused", part+"/MANIFEST of an older copy", from(part+"/MANIFEST"))
		add("grown", "refused", part+"/MANIFEST and TABLES of an older copy", from(part+"/MANIFEST", part+"/TABLES"))
		add("grown", "refused", part+"/MANIFEST with zeros for its last records", rewrite(part+"/MANIFEST",
			func(data []byte) []byte {
				starts := records(data)
				clear(data[starts[len(starts)-3]:])
				return data
			}))
		add("grown", "refused", part+" without a table", func(t *testing.T, dir string) {
			removed(filepath.Join(part, filepath.Base(named(t, dir, part+"/*.sst")[0])))(t, dir)
		})
		add("grown", "refused", part+" with a table that is cut", rewrite(part+"/*.sst", cut(1)))
		add("grown", "refused", part+" with an empty table", rewrite(part+"/*.sst", func([]byte) []byte { return nil }))
		add("grown", "told", part+" with a damaged block", rewrite(part+"/*.sst", flipAt(func(int) int { return 40 })))
		add("grown", "refused", part+" with two tables swapped", func(t *testing.T, dir string) {
			names := named(t, dir, part+"/*.sst")
			a, err := os.ReadFile(names[0])
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(names[len(names)-1])
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, names[0], b)
			writeFile(t, names[len(names)-1], a)
		})
		add("grown", "harmless", part+" with a copy of a table that has no name", func(t *testing.T, dir string) {
			names := named(t, dir, part+"/*.sst")
			if err := copyFile(names[len(names)-1], filepath.Join(dir, part, "900000.sst")); err != nil {
				t.Fatal(err)
			}
		})
		add("killed", "harmless", part+" with a table that was begun", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, part, "900000.sst"), nil)
		})
		add("killed", "told", part+" without its log", removed(part+"/*.mem"))
		add("killed", "told", part+" with a log cut in half", rewrite(part+"/*.mem", func(data []byte) []byte {
			return data[:len(bytes.TrimRight(data, "\x00"))/2]
		}))
		add("killed", "told", part+"/COMMITTED damaged", rewrite(part+"/COMMITTED", flipAt(func(int) int { return 3 })))
		add("killed", "harmless", part+"/COMMITTED removed", removed(part+"/COMMITTED"))
		add("killed", "told", part+"/TABLES removed", removed(part+"/TABLES"))
		add("killed", "told", part+"/TABLES damaged", rewrite(part+"/TABLES", flipAt(func(int) int { return 12 })))
		add("grown", "harmless", part+"/TABLES without a table", rewrite(part+"/TABLES", func(data []byte) []byte {
			return reduced(data)
		}))
		add("killed", "harmless", part+"/KEYREGISTRY removed", removed(part+"/KEYREGISTRY"))
		add("killed", "refused", part+"/ID removed", removed(part+"/ID"))
		add("killed", "refused", part+" of another store", rewrite(part+"/ID", flipAt(func(int) int { return 3 })))
		add("grown", "refused", part+" removed", removed(part))
		add("grown", "refused", part+" emptied", removed(part+"/*"))
		add("grown", "refused", part+" removed, and no STORE", removed(part, "STORE"))
	}
	add("killed", "refused", "STORE removed", removed("STORE"))
	add("killed", "refused", "STORE damaged", rewrite("STORE", func([]byte) []byte { return []byte("{}") }))
	add("killed", "refused", "STORE of another layout", rewrite("STORE", func(data []byte) []byte {
		return bytes.Replace(data, fmt.Appendf(nil, `"layout":%d`, store.Layout), []byte(`"layout":99`), 1)
	}))
	add("grown", "refused", "main of an older copy", from("main"))
	add("grown", "refused", "all but admin.key removed", func(t *testing.T, dir string) {
		removed("*")(t, dir)
		writeFile(t, filepath.Join(dir, "admin.key"), []byte("key\n"))
	})
	return all
}

// reduced returns a TABLES without tables, like an outdated one.
func reduced(data []byte) []byte {
	l := &listing{}
	line, _, _ := strings.Cut(string(data), "\n")
	if _, err := fmt.Sscanf(line, "manifest %d %x", &l.length, &l.sum); err != nil {
		panic(err)
	}
	return l.encode()
}

// TestDamages damages copies of data folders in many ways. No acknowledged key is lost silently, no intact folder is
// refused, a refusal changes nothing, and a successful repair restores everything.
func TestDamages(t *testing.T) {
	grown, stale := grownFolder(t)
	closed, killed := flipFolders(t)
	folders := map[string]string{"grown": grown, "closed": closed, "killed": killed}
	counts := map[string]int{}
	for _, c := range allDamages(stale) {
		t.Run(c.of+" "+strings.ReplaceAll(c.name, "/", " "), func(t *testing.T) {
			dir := t.TempDir()
			// A table must not be linked: Badger truncates tables that it has finished with.
			if err := os.CopyFS(dir, os.DirFS(folders[c.of])); err != nil {
				t.Fatal(err)
			}
			c.do(t, dir)
			got := outcome(t, dir)
			counts[got]++
			if got != c.want && !(got == "repaired" && c.want == "refused") {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	t.Logf("%v", counts)
}

func outcome(t *testing.T, dir string) string {
	t.Helper()
	before := fingerprints(t, dir)
	s, err := openDamaged(dir, false)
	if err != nil {
		t.Log(err)
		_, refused := errors.AsType[*RefusedError](err)
		_, layout := errors.AsType[*store.LayoutError](err)
		if !refused && !layout {
			t.Errorf("the error does not say what to do: %v", err)
		}
		// Only an open database tells whether the two belong together.
		opened := strings.Contains(err.Error(), "newer than main")
		if after := fingerprints(t, dir); !opened && !reflect.DeepEqual(before, after) {
			t.Errorf("it was refused, and the folder changed\nfrom %v\nto   %v", before, after)
		}
		if repaired(t, dir) {
			return "repaired"
		}
		return "refused"
	}
	defer s.Close()
	for _, sort := range []string{"k", "z"} {
		if there, failed := standing(t, s, sort); there != flipCommits*flipPairs && len(s.Findings()) == 0 && failed == 0 {
			t.Errorf("%d of %d keys are there: a silent loss", there, flipCommits*flipPairs)
			return "silent"
		}
	}
	if len(s.Findings()) > 0 {
		return "told"
	}
	return "harmless"
}

// repaired repairs a refused folder. If that succeeds, it checks that everything is there.
func repaired(t *testing.T, dir string) bool {
	t.Helper()
	s, err := openDamaged(dir, true)
	if err != nil {
		return false
	}
	defer s.Close()
	for _, sort := range []string{"k", "z"} {
		if there, _ := standing(t, s, sort); there != flipCommits*flipPairs {
			t.Errorf("repaired, %d of %d keys %s are there", there, flipCommits*flipPairs, sort)
		}
	}
	if err := s.Repaired(); err != nil {
		t.Error(err)
	}
	return true
}

func openDamaged(dir string, repair bool) (*Store, error) {
	return openTuned(Options{Dir: dir, FreeSpace: plenty, Repair: repair, Traces: []string{"admin.key"},
		Now: func() time.Time { return time.Unix(1e9, 0) }}, small)
}

// A new manifest names the given tables.
func TestEncodeManifest(t *testing.T) {
	dir := t.TempDir()
	tables := []listedTable{{id: 1, level: 6, compression: 1}, {id: 300, level: 0, compression: 0}}
	writeFile(t, filepath.Join(dir, badger.ManifestFilename), encodeManifest(tables))
	m, err := readManifest(badger.DefaultOptions(dir))
	if err != nil || m.tail != 0 || m.rewritten || len(m.tables) != len(tables) {
		t.Fatalf("%+v, error %v", m, err)
	}
	for _, want := range tables {
		if got := m.tables[want.id]; got.Level != want.level || got.Compression != want.compression {
			t.Errorf("table %d is %+v, want %+v", want.id, got, want)
		}
	}
}
