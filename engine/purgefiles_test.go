package engine_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// files returns the files under dir that contain a word.
func files(t *testing.T, dir, word string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		if err == nil && bytes.Contains(raw, []byte(word)) {
			names = append(names, filepath.Base(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Data that was purged, by hand, by retention or with its tenant, is in no file of the data folder after the next
// daily job.
func TestPurgedDataIsInNoFile(t *testing.T) {
	dir := t.TempDir()
	db, err := badgerstore.Open(badgerstore.Options{Dir: dir, Uncompressed: true, ReserveBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k := enginetest.Open(t, db)
	k.Drain()
	words := []string{"marker-of-purge", "marker-of-retention", "marker-of-session", "marker-of-tenant"}
	write := func(session, word string) {
		for i := range 20 {
			k.Post(session, enginetest.User(fmt.Sprintf("%s %d", word, i)))
		}
		k.Ask(`{"session_id":%q,"system":"%s in a decision"}`, session, word)
	}
	made, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	ours := k.Admin
	if k.Admin, err = k.Tenants.Authenticate(t.Context(), made.AdminKey); err != nil {
		t.Fatal(err)
	}
	write("s", words[3])
	k.Admin = ours
	write("retained", words[1])
	write("deleted", words[2])
	k.Advance(10 * enginetest.ADay)
	k.Drain() // a compaction that moves everything to old tables
	write("purged", words[0])
	write("kept", "marker-of-what-stays")
	for _, word := range words {
		if len(files(t, dir, word)) == 0 {
			t.Fatalf("the test does not see %s", word)
		}
	}

	k.SetIn(ident.DefaultProject, `{"conversation_retention_days":7}`)
	if err := k.DeleteTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "deleted"); err != nil {
		t.Fatal(err)
	}
	if run, err := k.Jobs.RunRetention(t.Context(), k.Admin); err != nil || run.Removed["conversations"] != 1 {
		t.Fatalf("%+v, %v", run, err)
	}
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "purged"); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	for _, tenant := range []string{ident.DefaultTenant, "acme"} {
		for _, word := range words {
			if k.Holds(tenant, word) {
				t.Errorf("a record of %s still holds %s", tenant, word)
			}
		}
	}
	k.Advance(enginetest.ADay + time.Minute)
	k.Drain()
	for _, word := range words {
		if names := files(t, dir, word); len(names) > 0 {
			t.Errorf("%s is in %v", word, names)
		}
	}
	if w := k.Ask(`{"session_id":"kept"}`); w.Usage["history_messages"] != 20 {
		t.Errorf("what was kept shows %s", w.Raw)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, word := range words {
		if names := files(t, dir, word); len(names) > 0 {
			t.Errorf("closed: %s is in %v", word, names)
		}
	}
}
