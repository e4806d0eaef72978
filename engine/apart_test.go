package engine_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// inNamespace returns a store with an indexed session in a namespace, and a key that is narrowed to that.
func inNamespace(t *testing.T) (*enginetest.Kit, string) {
	k := enginetest.New(t)
	k.Search(recall.Query{Query: "anything", Scope: "transcript"}) // transcripts are indexed from now on
	for range 40 {
		if _, err := k.TryPost(session.TurnRequest{SessionID: "talk", Namespace: []string{"users", "quellbach"}},
			enginetest.User("a tandem for two"), enginetest.Assistant("yes")); err != nil {
			t.Fatal(err)
		}
	}
	made := k.MakeKey(tenant.KeySpec{Name: "a", Role: "agent", Namespaces: [][]string{{"users", "quellbach"}}})
	k.Drain()
	k.Sound()
	return k, made.ID
}

// Verify finds a session whose messages are indexed in another namespace, and a key or a session that is in what cannot be
// a namespace.
func TestVerifyFindsWrongNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		is       func(key []byte) bool
		old, new string
		want     string
	}{
		"a session that says another namespace": {records.Session.Is, `"quellbach"`, `"bob"`, "it is indexed in another namespace"},
		"a session that says none":              {records.Session.Is, `"namespace":["users","quellbach"],`, "", "it is indexed in another namespace"},
		"a session in what is no namespace":     {records.Session.Is, `"quellbach"`, `" "`, "its namespace cannot be one"},
		"a key for what is no namespace":        {records.APIKey.Is, `["users","quellbach"]`, `[]`, "narrowed to what no key can be"},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := inNamespace(t)
			changed := 0
			for _, it := range k.Everything(ident.DefaultTenant) {
				if c.is(it.Key) && bytes.Contains(it.Value, []byte(c.old)) {
					write(t, k.Store, ident.DefaultTenant, it.Key, bytes.Replace(it.Value, []byte(c.old), []byte(c.new), 1))
					changed++
				}
			}
			if changed != 1 {
				t.Fatalf("%d records are changed", changed)
			}
			for _, f := range k.Verify().Findings {
				if strings.Contains(f.Detail, c.want) {
					return
				}
			}
			t.Errorf("verify finds %+v", k.Verify().Findings)
		})
	}
}

// A session that is deleted leaves the name of its namespace in no record, once its key is deleted, too.
func TestDeletedSessionLeavesNoNamespace(t *testing.T) {
	k, key := inNamespace(t)
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "talk"); err != nil {
		t.Fatal(err)
	}
	if err := k.Tenants.DeleteKey(t.Context(), k.Admin, key); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	for _, it := range k.Everything(ident.DefaultTenant) {
		if bytes.Contains(append(it.Key, it.Value...), []byte("quellbach")) {
			t.Errorf("%q: %q", it.Key, it.Value)
		}
	}
	k.Sound()
}

// A session keeps its namespace in its file, in a tenant's file and in a fork.
func TestSessionKeepsItsNamespace(t *testing.T) {
	k, _ := inNamespace(t)
	f, err := k.Sessions.Export(t.Context(), k.Admin, ident.DefaultProject, "talk")
	if err != nil {
		t.Fatal(err)
	}
	f.Session.ID = "again"
	if _, err := k.Sessions.Import(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, f); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Sessions.Fork(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "talk",
		session.ForkRequest{As: "forked"}); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	for _, id := range []string{"talk", "again", "forked"} {
		s, err := k.Sessions.Get(t.Context(), k.Admin, ident.DefaultProject, id)
		if raw, _ := json.Marshal(s.Namespace); err != nil || string(raw) != `["users","quellbach"]` {
			t.Errorf("%s: %s, %v", id, raw, err)
		}
	}
	for _, id := range []string{"talk", "again", "forked"} {
		in := func(who string) int {
			return len(k.Search(recall.Query{Query: "tandem", Scope: "transcript", SessionID: id, Namespace: []string{"users", who}}).Data)
		}
		if in("quellbach") == 0 || in("bob") != 0 {
			t.Errorf("%s: %d messages are found in its namespace, %d in another", id, in("quellbach"), in("bob"))
		}
	}
	k.Sound()
}
