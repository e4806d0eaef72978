package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/store"
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

func wantKind(t testing.TB, err error, kind engine.Kind) *engine.Error {
	t.Helper()
	var e *engine.Error
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
	if err := k.DeleteSession(t.Context(), k.admin, engine.DefaultProject, "gone"); err != nil {
		t.Fatal(err)
	}
	if again := k.ask(`{"session_id":"gone"}`); again.Usage["history_messages"] != 0 {
		t.Errorf("a deleted session shows %s", again.raw)
	}
	_, err := k.Replay(t.Context(), k.admin, engine.DefaultProject, w.DecisionID, nil)
	wantKind(t, err, engine.Gone)
	k.drain()
	if k.holds(engine.DefaultTenant, "confidential-text") || k.holds(engine.DefaultTenant, "gone\x00") {
		t.Error("the store still holds something of the session")
	}
	_, err = k.Replay(t.Context(), k.admin, engine.DefaultProject, w.DecisionID, nil)
	wantKind(t, err, engine.Gone)
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
	made, err := k.CreateTenant(t.Context(), engine.Once{}, engine.TenantSpec{ID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := k.Authenticate(t.Context(), made.AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	k.admin = admin
	for i := range 30 {
		k.post(fmt.Sprint("s", i), user("confidential-text"))
		k.ask(`{"session_id":"s%d","system":"confidential-text"}`, i)
	}
	if err := k.DeleteProject(t.Context(), admin, engine.DefaultProject); err != nil {
		t.Fatal(err)
	}
	_, err = k.tryPost(engine.TurnRequest{}, user("too late"))
	wantKind(t, err, engine.NotFound)
	k.drain()
	if k.holds("acme", "confidential-text") {
		t.Error("the store still holds something of the project")
	}
	if err := k.DeleteTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	_, err = k.Authenticate(t.Context(), made.AdminKey)
	wantKind(t, err, engine.Unauthorized)
	_, err = k.CreateTenant(t.Context(), engine.Once{}, engine.TenantSpec{ID: "acme"})
	wantKind(t, err, engine.Conflict)
	k.drain()
	if rest := k.everything("acme"); len(rest) > 0 {
		t.Errorf("%d records are left of the tenant", len(rest))
	}
	if _, err = k.CreateTenant(t.Context(), engine.Once{}, engine.TenantSpec{ID: "acme"}); err != nil {
		t.Errorf("the id is not free again: %v", err)
	}
}

// Decisions go with their retention, idempotent answers after a day.
func TestExpiry(t *testing.T) {
	k := newKit(t)
	once := engine.Once{Key: "k1", Body: [32]byte{1}}
	req := engine.TurnRequest{Messages: raw(user("hello"))}
	first, err := k.AppendTurn(t.Context(), k.admin, once, engine.DefaultProject, req)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.AppendTurn(t.Context(), k.admin, once, engine.DefaultProject, req)
	if err != nil || again.Turn != first.Turn {
		t.Fatalf("the same request again gives turn %d: %v", again.Turn, err)
	}
	other := once
	other.Body[0]++
	_, err = k.AppendTurn(t.Context(), k.admin, other, engine.DefaultProject, req)
	wantKind(t, err, engine.Invalid)
	w := k.ask(`{}`)
	k.advance(23 * time.Hour)
	k.drain()
	if again, err = k.AppendTurn(t.Context(), k.admin, once, engine.DefaultProject, req); err != nil || again.Turn != first.Turn {
		t.Fatalf("within a day: turn %d, %v", again.Turn, err)
	}
	k.replay(w.DecisionID)
	k.advance(2 * time.Hour)
	k.drain()
	if again, err = k.AppendTurn(t.Context(), k.admin, once, engine.DefaultProject, req); err != nil || again.Turn != first.Turn+1 {
		t.Fatalf("after a day: turn %d, %v", again.Turn, err)
	}
	k.advance(8 * 24 * time.Hour)
	k.drain()
	_, err = k.Replay(t.Context(), k.admin, engine.DefaultProject, w.DecisionID, nil)
	wantKind(t, err, engine.NotFound)
}

// A secret that an idempotent request is given again is nowhere stored in clear.
func TestIdempotentSecrets(t *testing.T) {
	k := newKit(t)
	once := engine.Once{Key: "k", Seal: "the caller's token"}
	spec := engine.KeySpec{Name: "ci", Role: "agent"}
	first, err := k.CreateKey(t.Context(), k.admin, once, spec)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.CreateKey(t.Context(), k.admin, once, spec)
	if err != nil || again != first {
		t.Fatalf("%+v, then %+v: %v", first, again, err)
	}
	if k.holds(engine.DefaultTenant, first.Key) {
		t.Error("the key is stored in clear")
	}
	once.Seal = "another token"
	_, err = k.CreateKey(t.Context(), k.admin, once, spec)
	wantKind(t, err, engine.Conflict)
}
