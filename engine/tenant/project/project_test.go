package project_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

var admin = ident.Caller{Tenant: "t", Role: ident.RoleTenantAdmin, Incarnation: ident.Incarnation{1}}

// room returns a Service for a store with one tenant. Every pipeline can run.
func room(t *testing.T) *project.Service {
	t.Helper()
	db := records.New(store.Seal(memstore.New()), nil, nil, nil, true)
	err := db.Commit(t.Context(), admin.Tenant,
		store.Batch{Put: []store.Pair{{Key: records.Live.Key(), Value: admin.Incarnation[:]}}})
	if err != nil {
		t.Fatal(err)
	}
	svc := project.New(db, nil)
	svc.Pipelines = project.Pipelines{BuiltIn: func(string) bool { return true },
		Check: func(*records.Tx, project.Settings, bool) error { return nil }}
	return svc
}

func put(t *testing.T, svc *project.Service, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, _, err := svc.Put(t.Context(), admin, id, project.Spec{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Records read together with a project are those of the current project, even if the first guess was a deleted one.
func TestReadFollowsTheLivingProject(t *testing.T) {
	svc := room(t)
	var asked []ident.Incarnation
	more := func(pinc ident.Incarnation) [][]byte {
		asked = append(asked, pinc)
		return [][]byte{records.Session.Key(pinc, "s")}
	}
	read := func() ident.Incarnation {
		t.Helper()
		asked = nil
		p, items, _, err := svc.Read(t.Context(), admin, "p", more)
		if err != nil || len(items) != 1 || string(items[0].Key) != string(records.Session.Key(p.Incarnation, "s")) {
			t.Fatalf("%+v, %v", items, err)
		}
		return p.Incarnation
	}
	put(t, svc, "p")
	first := read()
	if again := read(); again != first || len(asked) != 1 {
		t.Errorf("the second reading took %d round trips", len(asked))
	}
	if err := svc.Delete(t.Context(), admin, "p"); err != nil {
		t.Fatal(err)
	}
	put(t, svc, "p")
	if second := read(); second == first || !slices.Equal(asked, []ident.Incarnation{first, second}) {
		t.Errorf("read %v after %v, asking %v", second, first, asked)
	}
	narrow := ident.Caller{Tenant: "t", Projects: []string{"other"}}
	if _, err := svc.Get(t.Context(), narrow, "p"); !fault.IsNotFound(err) {
		t.Errorf("a key of another project: %v", err)
	}
}

func TestPatchSettings(t *testing.T) {
	svc := room(t)
	put(t, svc, "p")
	for _, c := range []struct{ patch, refused, field string }{
		{`{"history_max_tokens":100,"summary_mode":"wait"}`, "", ""},
		{`{"conversation_retention_days":30}`, "", ""},
		{`{"conversation_retention_days":0}`, "out_of_range", "conversation_retention_days"},
		{`{"session_history_depth":101}`, "out_of_range", "session_history_depth"},
		{`{"summary_keep_last":41}`, "out_of_range", "summary_keep_last"},
		{`{"summary_mode":"later"}`, "invalid_value", "summary_mode"},
		{`{"tokenizer":"p50k_base"}`, "invalid_value", "tokenizer"},
		{`{"summary_wait_ms":"1"}`, "wrong_type", "summary_wait_ms"},
		{`{"zebra":1,"pipeline":[],"apple":1}`, "unknown_field", "apple"},
		{`{"pipeline":[{"name":"x"}]}`, "unknown_field", "pipeline"},
		{`[]`, "invalid_body", ""},
		{`null`, "invalid_body", ""},
	} {
		_, err := svc.PatchSettings(t.Context(), admin, "p", []byte(c.patch))
		refusal, refused := errors.AsType[*fault.Error](err)
		if refused != (c.refused != "") {
			t.Errorf("%s: %v", c.patch, err)
			continue
		}
		if refused && (refusal.Code != c.refused || c.field != "" && refusal.Fields[0].Field != c.field) {
			t.Errorf("%s: %+v", c.patch, refusal)
		}
	}
	s, err := svc.PatchSettings(t.Context(), admin, "p", []byte(`{"history_max_tokens":null}`))
	if err != nil || s.HistoryMaxTokens != 8000 || s.SummaryMode != "wait" || *s.ConversationRetentionDays != 30 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A daily job handles projects in order and continues within the project where it stopped, unless that one was deleted.
func TestOfEachGoesThroughProjects(t *testing.T) {
	svc := room(t)
	put(t, svc, "a", "b", "c")
	var seen []string
	piece := svc.OfEach(func(_ context.Context, _ string, p *project.Record, _ project.Settings, at []byte) (
		int, []byte, error) {
		seen = append(seen, fmt.Sprintf("%s%q", p.ID, at))
		if p.ID != "c" && at == nil {
			return 1, []byte("half"), nil
		}
		return 1, nil, nil
	})
	var at []byte
	for range 10 {
		_, next, err := piece(t.Context(), "t", at)
		if err != nil {
			t.Fatal(err)
		}
		if at = next; at == nil {
			break
		}
		if len(seen) == 3 { // in the middle of b
			if err := svc.Delete(t.Context(), admin, "b"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := []string{`a""`, `a"half"`, `b""`, `c""`}; !slices.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
}
