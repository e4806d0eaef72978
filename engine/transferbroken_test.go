package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// breaking is a store that fails all commits from some point on.
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

// Wherever an import is interrupted, each object exists completely or not at all, and the same file continues it: in
// the end everything is stored once.
func TestImportBrokenOff(t *testing.T) {
	source := enginetest.New(t)
	asTenant(source, "one")
	source.MakeProject("other")
	var many []string // so that a session takes several commits
	for range 200 {
		many = append(many, enginetest.User("x"))
	}
	for range 12 {
		source.Post("long", many...)
	}
	source.Post("short", enginetest.User("x"))
	settleBoards(source, 100)
	for i := range 70 {
		source.Keep(fmt.Sprintf("fact%02d", i), strings.Repeat("long ago ", i+1))
	}
	for n := range 3 { // versions are stored one by one
		source.Upload("mine", wasmtest.Policy(wasmtest.Manifest(fmt.Sprint(n)), wasmtest.Keep()))
	}
	file, want := export(source), shown(source)
	settled := func(k *enginetest.Kit, raw store.Store) map[string]int {
		k.Advance(2 * time.Hour) // what was staged at the interruption is swept
		k.Drain()
		r := enginetest.Verified(t, raw)
		if !r.Clean() || r.LeftoverCount > 0 {
			t.Fatalf("%+v", r)
		}
		return r.Kinds
	}
	unbroken := enginetest.Open(t, memstore.New())
	unbroken.Now = source.Clock()
	asTenant(unbroken, "two")
	report := imported(unbroken, file)
	unbroken.Drain()
	shown(unbroken) // which keeps decisions
	kinds := settled(unbroken, unbroken.Store)
	for left := 0; ; left++ {
		b := &breaking{Store: memstore.New(), left: 1 << 30}
		k := enginetest.Open(t, b)
		k.Now = source.Clock()
		asTenant(k, "two")
		b.left = left
		_, err := tryImport(k, file)
		b.left = 1 << 30
		whole := map[string]uint32{"long": 12, "short": 1}
		list, lerr := k.Sessions.List(t.Context(), k.Admin, ident.DefaultProject, records.Page{})
		if lerr != nil {
			t.Fatal(lerr)
		}
		for _, s := range list.Data {
			if s.Turns != whole[s.ID] {
				t.Fatalf("after %d commits session %s has %d turns", left, s.ID, s.Turns)
			}
		}
		wholeBoards(k)
		if err == nil {
			if left == 0 {
				t.Fatal("it did not break")
			}
			return
		}
		if r := imported(k, file); fmt.Sprint(r) != fmt.Sprint(report) {
			t.Fatalf("broken off after %d commits and gone on, it reports %v, want %v", left, r, report)
		}
		k.Drain()
		if got := shown(k); strings.Join(got[1:], "\n") != strings.Join(want[1:], "\n") {
			t.Fatalf("broken off after %d commits and gone on, it shows something else", left)
		}
		if got := settled(k, b.Store); !maps.Equal(got, kinds) {
			t.Fatalf("broken off after %d commits and gone on, it stores %v, want %v", left, got, kinds)
		}
	}
}

// brokenOff returns a tenant in which the import of a file with its two sessions was interrupted after the first.
func brokenOff(t *testing.T, m *enginetest.Meddler) (k *enginetest.Kit, file []byte) {
	t.Helper()
	source := enginetest.New(t)
	asTenant(source, "one")
	source.Post("a", enginetest.User(strings.Repeat("first", records.StagedBytes/5))) // small ones share a commit
	source.Post("b", enginetest.User("second"))
	file = export(source)
	k = enginetest.Open(t, m)
	asTenant(k, "two")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	m.Before = func(string) {
		if len(k.SessionIDs()) == 1 {
			stop()
		}
	}
	if _, err := k.ImportTenant(ctx, k.Admin, ident.Once{}, transfer.ImportSpec{}, bytes.NewReader(file)); err == nil {
		t.Fatal("it did not break")
	}
	m.Before = nil
	if got := fmt.Sprint(k.SessionIDs()); got != "[a]" {
		t.Fatalf("the import that broke off left %s", got)
	}
	return k, file
}

// Only the same file continues an import, only for some time, and only what the import itself stored is no conflict.
func TestImportGoesOn(t *testing.T) {
	m := &enginetest.Meddler{Store: memstore.New()}
	k, file := brokenOff(t, m)
	if r := enginetest.Verified(t, m.Store); !r.Clean() || r.Kinds["import"] != 1 {
		t.Errorf("of an import that broke off: %+v", r)
	}
	other := lines(file)
	_, err := tryImport(k, sealed(append(other[:len(other)-1:len(other)-1],
		`{"type":"project","id":"late","name":"","created_at":"2026-01-01T00:00:00Z"}`)))
	if refused := enginetest.WantKind(t, err, fault.Conflict); len(refused.Fields) != 1 || !strings.Contains(refused.Detail,
		`session "a"`) {
		t.Errorf("another file: %+v", refused)
	}
	k.Post("b", enginetest.User("ours"))
	_, err = tryImport(k, file)
	if refused := enginetest.WantKind(t, err, fault.Conflict); len(refused.Fields) != 1 || !strings.Contains(refused.Detail,
		`session "b"`) {
		t.Errorf("a session that was made meanwhile: %+v", refused)
	}
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "b"); err != nil {
		t.Fatal(err)
	}
	imported(k, file)
	if _, err = tryImport(k, file); err == nil {
		t.Error("an import that was finished goes on")
	}

	m = &enginetest.Meddler{Store: memstore.New()}
	k, file = brokenOff(t, m)
	k.Advance(25 * time.Hour)
	k.Drain()
	if _, err = tryImport(k, file); err == nil {
		t.Error("an import goes on a day later")
	}
	if r := enginetest.Verified(t, m.Store); !r.Clean() || r.Kinds["import"] != 0 {
		t.Errorf("after a day: %+v", r)
	}
}

// A file that two requests import at once is stored once: one of them fails.
func TestImportTwiceAtOnce(t *testing.T) {
	m := &enginetest.Meddler{Store: memstore.New()}
	k, file := brokenOff(t, m)
	m.Before = func(string) {
		m.Before = nil
		imported(k, file)
	}
	_, err := tryImport(k, file)
	enginetest.WantKind(t, err, fault.Conflict)
	k.Advance(2 * time.Hour)
	k.Drain()
	if r := enginetest.Verified(t, m.Store); !r.Clean() || r.LeftoverCount > 0 || r.Kinds["session"] != 2 || r.Kinds["body"] != 2 {
		t.Errorf("%+v", r)
	}
}

// No file of an import remains on disk.
func TestImportLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	k := enginetest.Open(t, memstore.New(), func(o *engine.Options) { o.SpoolDir = dir })
	k.Post("s", enginetest.User("x"))
	file := export(k)
	asTenant(k, "two")
	for _, f := range [][]byte{file, file[:10]} {
		_, err := tryImport(k, f)
		if (err == nil) != (len(f) == len(file)) {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// A session that is deleted during its export is omitted by the import; the rest of the file is valid.
func TestExportBesideDeletion(t *testing.T) {
	k := enginetest.New(t)
	asTenant(k, "one")
	for i := range 300 {
		k.Post("a", enginetest.User(fmt.Sprint(i)))
	}
	k.Post("b", enginetest.User("stays"))
	var out bytes.Buffer
	w := writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte(`"turn":10,`)) {
			if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "a"); err != nil {
				t.Fatal(err)
			}
			k.Drain()
		}
		return out.Write(b)
	})
	if err := k.ExportTenant(t.Context(), k.Admin, w); err != nil {
		t.Fatal(err)
	}
	asTenant(k, "two")
	imported(k, out.Bytes())
	if got := fmt.Sprint(k.SessionIDs()); got != "[b]" {
		t.Errorf("imported %s", got)
	}
	k.Drain()
	if k.Holds("two", "content") && !k.Holds("two", "stays") || k.Holds("two", `"13"`) {
		t.Error("something of the deleted session is stored")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// If a tenant is deleted during an import into it, nothing more is stored, and its space is empty in the end.
func TestImportIntoADeletedTenant(t *testing.T) {
	source := enginetest.New(t)
	var many []string
	for range 300 {
		many = append(many, enginetest.User("x"))
	}
	for range 12 {
		source.Post("s", many...)
	}
	source.Keep("home", "Ada lives in Lisbon")
	settleBoards(source, 100)
	file := export(source)
	for at := range 30 { // at every commit of the import
		m := &enginetest.Meddler{Store: memstore.New()}
		k := enginetest.Open(t, m)
		asTenant(k, "acme")
		n := 0
		m.Before = func(tenant string) {
			if n++; n == at+1 && tenant == "acme" {
				m.Before = nil
				if err := k.DeleteTenant(t.Context(), "acme"); err != nil {
					t.Error(err)
				}
				k.Drain()
			}
		}
		_, err := tryImport(k, file)
		if deleted := m.Before == nil; deleted && err == nil {
			t.Errorf("at commit %d: the import into a deleted tenant succeeds", at)
		} else if !deleted {
			return
		}
		m.Before = nil
		k.Drain()
		if rest := k.Everything("acme"); len(rest) > 0 {
			t.Fatalf("at commit %d: %d records are left, the first %q", at, len(rest), rest[0].Key)
		}
	}
}

// A session's summary is transferred with it, and one that covers missing messages is refused before anything is
// stored.
func TestSummariesMove(t *testing.T) {
	k := enginetest.New(t)
	asTenant(k, "one")
	k.Post("s", enginetest.User("a"), enginetest.Assistant("b"))
	k.Post("s", enginetest.User("c"))
	file, err := k.Sessions.Export(t.Context(), k.Admin, ident.DefaultProject, "s")
	if err != nil {
		t.Fatal(err)
	}
	file.Session.ID = "summed"
	file.Summary = &session.FileSummary{Text: "they talked", Turns: [2]uint32{1, 1}, Covers: 2, Count: 2}
	if _, err := k.Sessions.Import(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, file); err != nil {
		t.Fatal(err)
	}
	whole := export(k)
	asTenant(k, "two")
	body := lines(whole)
	wrong := strings.Replace(strings.Join(body[:len(body)-1], "\n"), `"covers":2`, `"covers":9`, 1)
	_, err = tryImport(k, sealed(strings.Split(wrong, "\n")))
	enginetest.WantKind(t, err, fault.Invalid)
	if got := k.SessionIDs(); len(got) != 0 {
		t.Fatalf("a refused import left %v", got)
	}
	imported(k, whole)
	moved, err := k.Sessions.Export(t.Context(), k.Admin, ident.DefaultProject, "summed")
	if err != nil || moved.Summary == nil || *moved.Summary != *file.Summary {
		t.Errorf("the summary came as %+v, %v", moved.Summary, err)
	}
}
