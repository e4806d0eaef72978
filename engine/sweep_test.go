package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// A deleted session is gone at once, a sweep removes all its data, and a decision made from it says so.
func TestDeletedSessionLeavesNothing(t *testing.T) {
	k := enginetest.New(t)
	k.Post("kept", enginetest.User("ordinary"))
	for range 400 {
		k.Post("gone", enginetest.User("confidential-text"), enginetest.Call("c", "tool"))
	}
	w := k.Ask(`{"session_id":"gone","pending":[{"role":"user","content":"confidential-text"}]}`)
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "gone"); err != nil {
		t.Fatal(err)
	}
	if again := k.Ask(`{"session_id":"gone"}`); again.Usage["history_messages"] != 0 {
		t.Errorf("a deleted session shows %s", again.Raw)
	}
	_, err := k.Windows.Replay(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID, nil)
	enginetest.WantKind(t, err, fault.Gone)
	k.Drain()
	if k.Holds(ident.DefaultTenant, "confidential-text") || k.Holds(ident.DefaultTenant, "gone\x00") {
		t.Error("the store still holds something of the session")
	}
	_, err = k.Windows.Replay(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID, nil)
	enginetest.WantKind(t, err, fault.Gone)
	k.Post("gone", enginetest.User("new life"))
	if fresh := k.Ask(`{"session_id":"gone"}`); fresh.Usage["history_messages"] != 1 {
		t.Errorf("the session made again shows %s", fresh.Raw)
	}
	if kept := k.Ask(`{"session_id":"kept"}`); kept.Usage["history_messages"] != 1 {
		t.Errorf("another session shows %s", kept.Raw)
	}
}

func TestDeletedProjectAndTenantLeaveNothing(t *testing.T) {
	k := enginetest.New(t)
	made, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := k.Tenants.Authenticate(t.Context(), made.AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	k.Admin = admin
	for i := range 30 {
		k.Post(fmt.Sprint("s", i), enginetest.User("confidential-text"))
		k.Ask(`{"session_id":"s%d","system":"confidential-text"}`, i)
	}
	if err := k.DeleteProject(t.Context(), admin, ident.DefaultProject); err != nil {
		t.Fatal(err)
	}
	_, err = k.TryPost(session.TurnRequest{}, enginetest.User("too late"))
	enginetest.WantKind(t, err, fault.NotFound)
	k.Drain()
	if k.Holds("acme", "confidential-text") {
		t.Error("the store still holds something of the project")
	}
	if err := k.DeleteTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	_, err = k.Tenants.Authenticate(t.Context(), made.AdminKey)
	enginetest.WantKind(t, err, fault.Unauthorized)
	_, err = k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: "acme"})
	enginetest.WantKind(t, err, fault.Conflict)
	k.Drain()
	if rest := k.Everything("acme"); len(rest) > 0 {
		t.Errorf("%d records are left of the tenant", len(rest))
	}
	if _, err = k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: "acme"}); err != nil {
		t.Errorf("the id is not free again: %v", err)
	}
}

// Decisions are removed after their retention, idempotent answers after a day.
func TestExpiry(t *testing.T) {
	k := enginetest.New(t)
	once := ident.Once{Key: "k1", Body: [32]byte{1}}
	req := session.TurnRequest{Messages: enginetest.Raw(enginetest.User("hello"))}
	first, err := k.Sessions.AppendTurn(t.Context(), k.Admin, once, ident.DefaultProject, req)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Sessions.AppendTurn(t.Context(), k.Admin, once, ident.DefaultProject, req)
	if err != nil || again.Turn != first.Turn {
		t.Fatalf("the same request again gives turn %d: %v", again.Turn, err)
	}
	other := once
	other.Body[0]++
	_, err = k.Sessions.AppendTurn(t.Context(), k.Admin, other, ident.DefaultProject, req)
	enginetest.WantKind(t, err, fault.Invalid)
	w := k.Ask(`{}`)
	k.Advance(23 * time.Hour)
	k.Drain()
	if again, err = k.Sessions.AppendTurn(t.Context(), k.Admin, once, ident.DefaultProject, req); err != nil || again.Turn != first.Turn {
		t.Fatalf("within a day: turn %d, %v", again.Turn, err)
	}
	k.Replay(w.DecisionID)
	k.Advance(2 * time.Hour)
	k.Drain()
	if again, err = k.Sessions.AppendTurn(t.Context(), k.Admin, once, ident.DefaultProject, req); err != nil || again.Turn != first.Turn+1 {
		t.Fatalf("after a day: turn %d, %v", again.Turn, err)
	}
	k.Advance(8 * 24 * time.Hour)
	k.Drain()
	_, err = k.Windows.Replay(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID, nil)
	enginetest.WantKind(t, err, fault.NotFound)
}

// A secret in the answer to an idempotent request is never stored in plain text.
func TestIdempotentSecrets(t *testing.T) {
	k := enginetest.New(t)
	once := ident.Once{Key: "k", Seal: "the caller's token"}
	spec := tenant.KeySpec{Name: "ci", Role: "agent"}
	first, err := k.Tenants.CreateKey(t.Context(), k.Admin, once, spec)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Tenants.CreateKey(t.Context(), k.Admin, once, spec)
	if err != nil || again != first {
		t.Fatalf("%+v, then %+v: %v", first, again, err)
	}
	if k.Holds(ident.DefaultTenant, first.Key) {
		t.Error("the key is stored in clear")
	}
	once.Seal = "another token"
	_, err = k.Tenants.CreateKey(t.Context(), k.Admin, once, spec)
	enginetest.WantKind(t, err, fault.Conflict)
}
