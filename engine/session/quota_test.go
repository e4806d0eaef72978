package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// With a quota, messages that would exceed it are refused on every path by which they can be added. Deleting messages
// frees quota.
func TestMessageQuota(t *testing.T) {
	const quota = 10_000
	limited := func(o *engine.Options) { o.MessageBytes = quota }
	k := enginetest.Open(t, memstore.New(), limited)
	long := enginetest.User(strings.Repeat("x", 3000))
	fill := func() (n int) {
		t.Helper()
		for n < 100 {
			_, err := k.TryPost(session.TurnRequest{SessionID: "s"}, long)
			if err != nil {
				if full := enginetest.WantKind(t, err, fault.NoSpace); full.Code != "quota_exceeded" {
					t.Fatalf("refused with %s", full.Code)
				}
				return n
			}
			n++
		}
		t.Fatal("never refused")
		return n
	}
	if n := fill(); n != 3 {
		t.Errorf("%d turns of 3 kB fit %d bytes, want 3", n, quota)
	}
	file, err := k.Sessions.Export(t.Context(), k.Admin, ident.DefaultProject, "s")
	if err != nil {
		t.Fatal(err)
	}
	file.Session.ID = "copy"
	_, err = k.Sessions.Import(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, file)
	if full := enginetest.WantKind(t, err, fault.NoSpace); full.Code != "quota_exceeded" {
		t.Errorf("an import is refused with %s", full.Code)
	}
	k.Ask(`{"session_id":"s"}`) // reading still works
	if _, err := k.TryPost(session.TurnRequest{SessionID: "s"}, enginetest.User("short")); err != nil {
		t.Error("what fits is refused:", err)
	}

	// Another process counts what is stored, and so does this one after a while.
	k = enginetest.Open(t, k.Store, limited)
	if n := fill(); n != 0 {
		t.Errorf("after a restart %d more fit", n)
	}
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "s"); err != nil {
		t.Fatal(err)
	}
	if n := fill(); n != 3 {
		t.Errorf("after a deletion %d fit, want 3", n)
	}
	purge(k, 0, false)
	if n := fill(); n != 3 {
		t.Errorf("after a purge %d fit, want 3", n)
	}
	if err := k.DeleteProject(t.Context(), k.Admin, ident.DefaultProject); err != nil {
		t.Fatal(err)
	}
	k.MakeProject(ident.DefaultProject)
	if n := fill(); n != 3 {
		t.Errorf("after the project's deletion %d fit, want 3", n)
	}
	k.Advance(2 * time.Hour)
	if n := fill(); n != 0 {
		t.Errorf("after a new count %d more fit", n)
	}
}
