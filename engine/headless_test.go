package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// spoil damages the one record whose key begins and ends like this.
func (k *kit) spoil(prefix, suffix string) {
	k.Helper()
	for _, one := range rawRecords(k, k.store) {
		if strings.HasPrefix(string(one.key), prefix) && strings.HasSuffix(string(one.key), suffix) && one.tenant == ident.DefaultTenant {
			one.put(k, k.store, append(slices.Clone(one.value), 'x'))
			return
		}
	}
	k.Fatalf("no record %q…%q", prefix, suffix)
}

// A session whose head is damaged can be deleted, and nothing is left of it, nor is anything of another taken, though
// the head alone said which messages are its own.
func TestDeletingASessionWithADamagedHead(t *testing.T) {
	k := newKit(t)
	ctx := t.Context()
	for i := range 3 {
		k.post(fmt.Sprint("kept", i), user("ordinary"))
	}
	k.post("one", user("first-secret"), call("c", "tool"))
	k.post("two", user("second-secret"))
	k.spoil("h\x00", "one\x00")
	k.spoil("h\x00", "two\x00")
	if _, err := k.tryPost(session.TurnRequest{SessionID: "one"}, user("more")); err == nil {
		t.Error("a turn was appended behind a damaged head")
	}
	remove := func(session string) {
		t.Helper()
		if err := k.Sessions.Delete(ctx, k.admin, ident.DefaultProject, session); err != nil {
			t.Fatal(err)
		}
	}
	remove("one")
	k.drain()
	// The messages may be those of the other session: they stay, and are accounted for.
	if !k.holds(ident.DefaultTenant, "first-secret") || !k.holds(ident.DefaultTenant, "second-secret") {
		t.Error("messages were swept that may belong to a session that is there")
	}
	k.post("one", user("new life")) // while the old messages are there
	remove("two")
	k.drain()
	for _, word := range []string{"first-secret", "second-secret", "two\x00"} {
		if k.holds(ident.DefaultTenant, word) {
			t.Errorf("the store still holds %q", word)
		}
	}
	for session, text := range map[string]string{"one": "new life", "kept0": "ordinary", "kept1": "ordinary", "kept2": "ordinary"} {
		if w := k.ask(`{"session_id":%q}`, session); !strings.Contains(string(w.raw), text) {
			t.Errorf("session %s shows %s", session, w.raw)
		}
	}
	wantClean(t, k.verify())
}

// The same holds for a session that goes with its project.
func TestDeletingAProjectWithADamagedHead(t *testing.T) {
	k := newKit(t)
	ctx := t.Context()
	if _, _, err := k.Projects.Put(ctx, k.admin, "p", project.Spec{}); err != nil {
		t.Fatal(err)
	}
	for _, sessionID := range []string{"damaged", "damaged-too", "whole"} {
		_, err := k.Sessions.AppendTurn(ctx, k.admin, access.Once{}, "p", session.TurnRequest{SessionID: sessionID,
			Messages: []json.RawMessage{json.RawMessage(user("confidential"))}})
		if err != nil {
			t.Fatal(err)
		}
	}
	k.spoil("h\x00", "damaged\x00")
	k.spoil("h\x00", "damaged-too\x00")
	if err := k.DeleteProject(ctx, k.admin, "p"); err != nil {
		t.Fatal(err)
	}
	k.drain()
	if k.holds(ident.DefaultTenant, "confidential") {
		t.Error("messages of a deleted project are left")
	}
	wantClean(t, k.verify())
}

// An import under way is nobody's, and stays.
func TestHeadlessSweepSparesImports(t *testing.T) {
	k := household(t)
	k.drain()
	k.spoil("h\x00", "talk\x00")
	if err := k.Sessions.Delete(t.Context(), k.admin, ident.DefaultProject, "talk"); err != nil {
		t.Fatal(err)
	}
	job := append(append([]byte("j\x00i"), 0x7f, 0, 0, 0, 0, 0, 0, 0), "j\x00sunderway"...)
	write(t, k.store, ident.DefaultTenant, job, []byte("ofprojec"))
	write(t, k.store, ident.DefaultTenant, append([]byte("m\x00underwayb"), make([]byte, 8)...), []byte("coming in"))
	k.drain()
	if !k.holds(ident.DefaultTenant, "coming in") || k.holds(ident.DefaultTenant, "hello") {
		t.Error("the sweep took the wrong messages")
	}
	wantClean(t, k.verify())
}

// A key whose record is damaged can be deleted by whoever has the whole tenant.
func TestDeletingADamagedKey(t *testing.T) {
	k := newKit(t)
	made, err := k.Tenants.CreateKey(t.Context(), k.admin, access.Once{}, tenant.KeySpec{Role: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	k.spoil("k\x00", made.ID+"\x00")
	narrow := k.admin
	narrow.Projects = []string{ident.DefaultProject}
	if err := k.Tenants.DeleteKey(t.Context(), narrow, made.ID); err == nil {
		t.Error("a narrowed key deleted a key that may be any")
	}
	if err := k.Tenants.DeleteKey(t.Context(), k.admin, made.ID); err != nil {
		t.Fatal(err)
	}
	wantClean(t, k.verify())
}

// What operators are told to do about damage helps.
func TestWhatHelpsAgainstDamage(t *testing.T) {
	k := newKit(t)
	ctx := t.Context()
	k.post("talk", user("hello"), call("c", "tool"))
	k.post("talk", user("again"))
	k.upload("mine", keeping("damage"))
	exportAndImport := func() {
		t.Helper()
		file, err := k.Sessions.Export(ctx, k.admin, ident.DefaultProject, "talk")
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Sessions.Delete(ctx, k.admin, ident.DefaultProject, "talk"); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Sessions.Import(ctx, k.admin, access.Once{}, ident.DefaultProject, file); err != nil {
			t.Fatal(err)
		}
		k.drain()
	}
	for what, damage := range map[string]struct {
		spoil func()
		help  func()
	}{
		"open calls":     {func() { k.spoil("o\x00", "talk\x00") }, exportAndImport},
		"a turn's names": {func() { k.spoil("m\x00", "h\x00\x00\x00\x01") }, exportAndImport},
		"a module": {func() { k.spoil("w\x00", "") }, func() {
			k.upload("again", keeping("damage"))
		}},
		"a job": {func() {
			k.post("gone", user("x"))
			if err := k.Sessions.Delete(ctx, k.admin, ident.DefaultProject, "gone"); err != nil {
				t.Fatal(err)
			}
			k.spoil("j\x00s", "")
		}, k.drain},
	} {
		damage.spoil()
		if k.verify().Clean() {
			t.Errorf("%s: the damage is not seen", what)
		}
		damage.help()
		for _, f := range k.verify().Findings {
			t.Errorf("%s: still found: %+v", what, f)
		}
	}
}
