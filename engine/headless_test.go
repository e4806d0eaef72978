package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// spoil damages the one record whose key has this prefix and suffix.
func spoil(k *enginetest.Kit, prefix, suffix string) {
	k.Helper()
	for _, one := range rawRecords(k, k.Store) {
		if strings.HasPrefix(string(one.key), prefix) && strings.HasSuffix(string(one.key), suffix) && one.tenant == ident.DefaultTenant {
			one.put(k, k.Store, append(slices.Clone(one.value), 'x'))
			return
		}
	}
	k.Fatalf("no record %q…%q", prefix, suffix)
}

// A session with a damaged head can be deleted completely, and nothing of another session is removed, although only
// the head said which messages belong to the session.
func TestDeletingASessionWithADamagedHead(t *testing.T) {
	k := enginetest.New(t)
	ctx := t.Context()
	for i := range 3 {
		k.Post(fmt.Sprint("kept", i), enginetest.User("ordinary"))
	}
	k.Post("one", enginetest.User("first-secret"), enginetest.Call("c", "tool"))
	k.Post("two", enginetest.User("second-secret"))
	spoil(k, "h\x00", "one\x00")
	spoil(k, "h\x00", "two\x00")
	if _, err := k.TryPost(session.TurnRequest{SessionID: "one"}, enginetest.User("more")); err == nil {
		t.Error("a turn was appended behind a damaged head")
	}
	remove := func(session string) {
		t.Helper()
		if err := k.Sessions.Delete(ctx, k.Admin, ident.DefaultProject, session); err != nil {
			t.Fatal(err)
		}
	}
	remove("one")
	k.Drain()
	// The messages may belong to the other session: they remain, and are accounted for.
	if !k.Holds(ident.DefaultTenant, "first-secret") || !k.Holds(ident.DefaultTenant, "second-secret") {
		t.Error("messages were swept that may belong to a session that is there")
	}
	k.Post("one", enginetest.User("new life")) // while the old messages exist
	remove("two")
	k.Drain()
	for _, word := range []string{"first-secret", "second-secret", "two\x00"} {
		if k.Holds(ident.DefaultTenant, word) {
			t.Errorf("the store still holds %q", word)
		}
	}
	for session, text := range map[string]string{"one": "new life", "kept0": "ordinary", "kept1": "ordinary", "kept2": "ordinary"} {
		if w := k.Ask(`{"session_id":%q}`, session); !strings.Contains(string(w.Raw), text) {
			t.Errorf("session %s shows %s", session, w.Raw)
		}
	}
	wantClean(t, k.Verify())
}

// The same applies to a session that is deleted with its project.
func TestDeletingAProjectWithADamagedHead(t *testing.T) {
	k := enginetest.New(t)
	ctx := t.Context()
	if _, _, err := k.Projects.Put(ctx, k.Admin, "p", project.Spec{}); err != nil {
		t.Fatal(err)
	}
	for _, sessionID := range []string{"damaged", "damaged-too", "whole"} {
		_, err := k.Sessions.AppendTurn(ctx, k.Admin, ident.Once{}, "p", session.TurnRequest{SessionID: sessionID,
			Messages: []json.RawMessage{json.RawMessage(enginetest.User("confidential"))}})
		if err != nil {
			t.Fatal(err)
		}
	}
	spoil(k, "h\x00", "damaged\x00")
	spoil(k, "h\x00", "damaged-too\x00")
	if err := k.DeleteProject(ctx, k.Admin, "p"); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	if k.Holds(ident.DefaultTenant, "confidential") {
		t.Error("messages of a deleted project are left")
	}
	wantClean(t, k.Verify())
}

// A running import belongs to no session and is kept.
func TestHeadlessSweepSparesImports(t *testing.T) {
	k := household(t)
	k.Drain()
	spoil(k, "h\x00", "talk\x00")
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "talk"); err != nil {
		t.Fatal(err)
	}
	job := append(append([]byte("j\x00i"), 0x7f, 0, 0, 0, 0, 0, 0, 0), "j\x00sunderway"...)
	write(t, k.Store, ident.DefaultTenant, job, []byte("ofprojec"))
	write(t, k.Store, ident.DefaultTenant, append([]byte("m\x00underwayb"), make([]byte, 8)...), []byte("coming in"))
	k.Drain()
	if !k.Holds(ident.DefaultTenant, "coming in") || k.Holds(ident.DefaultTenant, "hello") {
		t.Error("the sweep took the wrong messages")
	}
	wantClean(t, k.Verify())
}

// A key whose record is damaged can be deleted by a caller with access to the whole tenant.
func TestDeletingADamagedKey(t *testing.T) {
	k := enginetest.New(t)
	made, err := k.Tenants.CreateKey(t.Context(), k.Admin, ident.Once{}, tenant.KeySpec{Role: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	spoil(k, "k\x00", made.ID+"\x00")
	narrow := k.Admin
	narrow.Projects = []string{ident.DefaultProject}
	if err := k.Tenants.DeleteKey(t.Context(), narrow, made.ID); err == nil {
		t.Error("a narrowed key deleted a key that may be any")
	}
	if err := k.Tenants.DeleteKey(t.Context(), k.Admin, made.ID); err != nil {
		t.Fatal(err)
	}
	wantClean(t, k.Verify())
}

// The documented remedies for damage work.
func TestWhatHelpsAgainstDamage(t *testing.T) {
	k := enginetest.New(t)
	ctx := t.Context()
	k.Post("talk", enginetest.User("hello"), enginetest.Call("c", "tool"))
	k.Post("talk", enginetest.User("again"))
	k.Upload("mine", enginetest.Keeping("damage"))
	exportAndImport := func() {
		t.Helper()
		file, err := k.Sessions.Export(ctx, k.Admin, ident.DefaultProject, "talk")
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Sessions.Delete(ctx, k.Admin, ident.DefaultProject, "talk"); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Sessions.Import(ctx, k.Admin, ident.Once{}, ident.DefaultProject, file); err != nil {
			t.Fatal(err)
		}
		k.Drain()
	}
	for what, damage := range map[string]struct {
		spoil func()
		help  func()
	}{
		"open calls":     {func() { spoil(k, "o\x00", "talk\x00") }, exportAndImport},
		"a turn's names": {func() { spoil(k, "m\x00", "h\x00\x00\x00\x00\x00\x00\x00\x01") }, exportAndImport},
		"a module": {func() { spoil(k, "w\x00", "") }, func() {
			k.Upload("again", enginetest.Keeping("damage"))
		}},
		"a job": {func() {
			k.Post("gone", enginetest.User("x"))
			if err := k.Sessions.Delete(ctx, k.Admin, ident.DefaultProject, "gone"); err != nil {
				t.Fatal(err)
			}
			spoil(k, "j\x00s", "")
		}, k.Drain},
	} {
		damage.spoil()
		if k.Verify().Clean() {
			t.Errorf("%s: the damage is not seen", what)
		}
		damage.help()
		for _, f := range k.Verify().Findings {
			t.Errorf("%s: still found: %+v", what, f)
		}
	}
}
