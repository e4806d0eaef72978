package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// breaking is a store that fails all commits from a point on.
type breaking struct {
	store.Store
	left int
}

func (b *breaking) Commit(ctx context.Context, tenant string, batch store.Batch) error {
	if b.left--; b.left < 0 {
		return errors.New("broken")
	}
	return b.Store.Commit(ctx, tenant, batch)
}

// Wherever an import breaks off, each session is there whole or not at all, and the same file with skip adds the rest.
func TestImportBrokenOff(t *testing.T) {
	source := newKit(t)
	source.tenant("one")
	source.project("other")
	var many []string // so that a session takes several commits
	for range 200 {
		many = append(many, user("x"))
	}
	for range 12 {
		source.post("long", many...)
	}
	source.post("short", user("x"))
	source.settleBoards(100)
	for i := range 70 {
		source.keep(fmt.Sprintf("fact%02d", i), strings.Repeat("long ago ", i+1))
	}
	file, want := source.export(), source.shown()
	for left := 0; ; left++ {
		b := &breaking{Store: memstore.New(), left: 1 << 30}
		k := openKit(t, b)
		k.now = source.clock()
		k.tenant("two")
		b.left = left
		_, err := k.tryImport("", file)
		b.left = 1 << 30
		whole := map[string]uint32{"long": 12, "short": 1}
		list, lerr := k.ListSessions(t.Context(), k.admin, engine.DefaultProject, engine.Page{})
		if lerr != nil {
			t.Fatal(lerr)
		}
		for _, s := range list.Data {
			if s.Turns != whole[s.ID] {
				t.Fatalf("after %d commits session %s has %d turns", left, s.ID, s.Turns)
			}
		}
		k.wholeBoards()
		if err == nil {
			if left == 0 {
				t.Fatal("it did not break")
			}
			return
		}
		k.imported("skip", file)
		k.drain()
		if got := k.shown(); strings.Join(got[1:], "\n") != strings.Join(want[1:], "\n") {
			t.Fatalf("broken off after %d commits, then added to, it shows something else", left)
		}
	}
}

// Nothing of an import's file is left on disk.
func TestImportLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	k := openKit(t, memstore.New(), func(o *engine.Options) { o.SpoolDir = dir })
	k.post("s", user("x"))
	file := k.export()
	for _, f := range [][]byte{file, file[:10]} {
		_, err := k.tryImport("skip", f)
		if (err == nil) != (len(f) == len(file)) {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// A session that is deleted while it is exported is left out of the import; the rest of the file is good.
func TestExportBesideDeletion(t *testing.T) {
	k := newKit(t)
	k.tenant("one")
	for i := range 300 {
		k.post("a", user(fmt.Sprint(i)))
	}
	k.post("b", user("stays"))
	var out bytes.Buffer
	w := writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte(`"turn":10,`)) {
			if err := k.DeleteSession(t.Context(), k.admin, engine.DefaultProject, "a"); err != nil {
				t.Fatal(err)
			}
			k.drain()
		}
		return out.Write(b)
	})
	if err := k.ExportTenant(t.Context(), k.admin, w); err != nil {
		t.Fatal(err)
	}
	k.tenant("two")
	k.imported("", out.Bytes())
	if got := fmt.Sprint(k.sessions()); got != "[b]" {
		t.Errorf("imported %s", got)
	}
	k.drain()
	if k.holds("two", "content") && !k.holds("two", "stays") || k.holds("two", `"13"`) {
		t.Error("something of the deleted session is stored")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A tenant that is deleted while a file is imported into it gets nothing more, and its space is empty in the end.
func TestImportIntoADeletedTenant(t *testing.T) {
	source := newKit(t)
	var many []string
	for range 300 {
		many = append(many, user("x"))
	}
	for range 12 {
		source.post("s", many...)
	}
	source.keep("home", "Ada lives in Lisbon")
	source.settleBoards(100)
	file := source.export()
	for at := range 30 { // at every commit of the import
		m := &meddler{Store: memstore.New()}
		k := openKit(t, m)
		k.tenant("acme")
		n := 0
		m.before = func(tenant string) {
			if n++; n == at+1 && tenant == "acme" {
				m.before = nil
				if err := k.DeleteTenant(t.Context(), "acme"); err != nil {
					t.Error(err)
				}
				k.drain()
			}
		}
		_, err := k.tryImport("", file)
		if deleted := m.before == nil; deleted && err == nil {
			t.Errorf("at commit %d: the import into a deleted tenant succeeds", at)
		} else if !deleted {
			return
		}
		m.before = nil
		k.drain()
		if rest := k.everything("acme"); len(rest) > 0 {
			t.Fatalf("at commit %d: %d records are left, the first %q", at, len(rest), rest[0].Key)
		}
	}
}

// A session's summary goes with it, and one that covers what is not there is refused before anything is stored.
func TestSummariesMove(t *testing.T) {
	k := newKit(t)
	k.tenant("one")
	k.post("s", user("a"), assistant("b"))
	k.post("s", user("c"))
	file, err := k.ExportSession(t.Context(), k.admin, engine.DefaultProject, "s")
	if err != nil {
		t.Fatal(err)
	}
	file.Session.ID = "summed"
	file.Summary = &engine.FileSummary{Text: "they talked", Turns: [2]uint32{1, 1}, Covers: 2, Count: 2}
	if _, err := k.ImportSession(t.Context(), k.admin, engine.Once{}, engine.DefaultProject, file); err != nil {
		t.Fatal(err)
	}
	whole := k.export()
	k.tenant("two")
	body := lines(whole)
	wrong := strings.Replace(strings.Join(body[:len(body)-1], "\n"), `"covers":2`, `"covers":9`, 1)
	_, err = k.tryImport("", sealed(strings.Split(wrong, "\n")))
	wantKind(t, err, engine.Invalid)
	if got := k.sessions(); len(got) != 0 {
		t.Fatalf("a refused import left %v", got)
	}
	k.imported("", whole)
	moved, err := k.ExportSession(t.Context(), k.admin, engine.DefaultProject, "summed")
	if err != nil || moved.Summary == nil || *moved.Summary != *file.Summary {
		t.Errorf("the summary came as %+v, %v", moved.Summary, err)
	}
}
