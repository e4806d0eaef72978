package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// everything reads all records of a tenant.
func (k *kit) everything(tenant string) []store.Item {
	k.Helper()
	r, err := store.Seal(k.store).Read(k.Context(), tenant, store.Query{Ranges: []store.Range{{}}})
	if err != nil {
		k.Fatal(err)
	}
	return r.Ranges[0]
}

func (k *kit) holds(tenant, word string) bool {
	for _, it := range k.everything(tenant) {
		if bytes.Contains(it.Value, []byte(word)) || bytes.Contains(it.Key, []byte(word)) {
			return true
		}
	}
	return false
}

func wantKind(t testing.TB, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("got %v, want an error of kind %d", err, kind)
	}
	return e
}

// A deleted session is gone at once, a sweep leaves nothing of it, and a decision made from it says so.
func TestDeletedSessionLeavesNothing(t *testing.T) {
	k := newKit(t)
	k.post("kept", user("ordinary"))
	for range 400 {
		k.post("gone", user("confidential-text"), call("c", "tool"))
	}
	w := k.ask(`{"session_id":"gone","pending":[{"role":"user","content":"confidential-text"}]}`)
	if err := k.Sessions.Delete(t.Context(), k.admin, ident.DefaultProject, "gone"); err != nil {
		t.Fatal(err)
	}
	if again := k.ask(`{"session_id":"gone"}`); again.Usage["history_messages"] != 0 {
		t.Errorf("a deleted session shows %s", again.raw)
	}
	_, err := k.Windows.Replay(t.Context(), k.admin, ident.DefaultProject, w.DecisionID, nil)
	wantKind(t, err, fault.Gone)
	k.drain()
	if k.holds(ident.DefaultTenant, "confidential-text") || k.holds(ident.DefaultTenant, "gone\x00") {
		t.Error("the store still holds something of the session")
	}
	_, err = k.Windows.Replay(t.Context(), k.admin, ident.DefaultProject, w.DecisionID, nil)
	wantKind(t, err, fault.Gone)
	k.post("gone", user("new life"))
	if fresh := k.ask(`{"session_id":"gone"}`); fresh.Usage["history_messages"] != 1 {
		t.Errorf("the session made again shows %s", fresh.raw)
	}
	if kept := k.ask(`{"session_id":"kept"}`); kept.Usage["history_messages"] != 1 {
		t.Errorf("another session shows %s", kept.raw)
	}
}

func TestDeletedProjectAndTenantLeaveNothing(t *testing.T) {
	k := newKit(t)
	made, err := k.CreateTenant(t.Context(), access.Once{}, tenant.Spec{ID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := k.Tenants.Authenticate(t.Context(), made.AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	k.admin = admin
	for i := range 30 {
		k.post(fmt.Sprint("s", i), user("confidential-text"))
		k.ask(`{"session_id":"s%d","system":"confidential-text"}`, i)
	}
	if err := k.DeleteProject(t.Context(), admin, ident.DefaultProject); err != nil {
		t.Fatal(err)
	}
	_, err = k.tryPost(session.TurnRequest{}, user("too late"))
	wantKind(t, err, fault.NotFound)
	k.drain()
	if k.holds("acme", "confidential-text") {
		t.Error("the store still holds something of the project")
	}
	if err := k.DeleteTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	_, err = k.Tenants.Authenticate(t.Context(), made.AdminKey)
	wantKind(t, err, fault.Unauthorized)
	_, err = k.CreateTenant(t.Context(), access.Once{}, tenant.Spec{ID: "acme"})
	wantKind(t, err, fault.Conflict)
	k.drain()
	if rest := k.everything("acme"); len(rest) > 0 {
		t.Errorf("%d records are left of the tenant", len(rest))
	}
	if _, err = k.CreateTenant(t.Context(), access.Once{}, tenant.Spec{ID: "acme"}); err != nil {
		t.Errorf("the id is not free again: %v", err)
	}
}

// Decisions go with their retention, idempotent answers after a day.
func TestExpiry(t *testing.T) {
	k := newKit(t)
	once := access.Once{Key: "k1", Body: [32]byte{1}}
	req := session.TurnRequest{Messages: raw(user("hello"))}
	first, err := k.Sessions.AppendTurn(t.Context(), k.admin, once, ident.DefaultProject, req)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Sessions.AppendTurn(t.Context(), k.admin, once, ident.DefaultProject, req)
	if err != nil || again.Turn != first.Turn {
		t.Fatalf("the same request again gives turn %d: %v", again.Turn, err)
	}
	other := once
	other.Body[0]++
	_, err = k.Sessions.AppendTurn(t.Context(), k.admin, other, ident.DefaultProject, req)
	wantKind(t, err, fault.Invalid)
	w := k.ask(`{}`)
	k.advance(23 * time.Hour)
	k.drain()
	if again, err = k.Sessions.AppendTurn(t.Context(), k.admin, once, ident.DefaultProject, req); err != nil || again.Turn != first.Turn {
		t.Fatalf("within a day: turn %d, %v", again.Turn, err)
	}
	k.replay(w.DecisionID)
	k.advance(2 * time.Hour)
	k.drain()
	if again, err = k.Sessions.AppendTurn(t.Context(), k.admin, once, ident.DefaultProject, req); err != nil || again.Turn != first.Turn+1 {
		t.Fatalf("after a day: turn %d, %v", again.Turn, err)
	}
	k.advance(8 * 24 * time.Hour)
	k.drain()
	_, err = k.Windows.Replay(t.Context(), k.admin, ident.DefaultProject, w.DecisionID, nil)
	wantKind(t, err, fault.NotFound)
}

// A secret that an idempotent request is given again is nowhere stored in clear.
func TestIdempotentSecrets(t *testing.T) {
	k := newKit(t)
	once := access.Once{Key: "k", Seal: "the caller's token"}
	spec := tenant.KeySpec{Name: "ci", Role: "agent"}
	first, err := k.Tenants.CreateKey(t.Context(), k.admin, once, spec)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Tenants.CreateKey(t.Context(), k.admin, once, spec)
	if err != nil || again != first {
		t.Fatalf("%+v, then %+v: %v", first, again, err)
	}
	if k.holds(ident.DefaultTenant, first.Key) {
		t.Error("the key is stored in clear")
	}
	once.Seal = "another token"
	_, err = k.Tenants.CreateKey(t.Context(), k.admin, once, spec)
	wantKind(t, err, fault.Conflict)
}
