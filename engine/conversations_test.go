package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

const aDay = 24 * time.Hour

func (k *kit) purge(days int, dry bool) int {
	k.Helper()
	out, err := k.Sessions.PurgeConversations(k.Context(), k.admin,
		session.PurgeSpec{ProjectID: ident.DefaultProject, OlderThanDays: days, DryRun: dry})
	if err != nil {
		k.Fatal(err)
	}
	if out.OlderThanDays != days || out.DryRun != dry {
		k.Errorf("purge answers %+v", out)
	}
	return out.DeletedConversations
}

func (k *kit) total() int {
	k.Helper()
	s, err := k.Sessions.Conversations(k.Context(), k.admin, ident.DefaultProject)
	if err != nil {
		k.Fatal(err)
	}
	return s.Total
}

func (k *kit) sessions() (ids []string) {
	k.Helper()
	list, err := k.Sessions.List(k.Context(), k.admin, ident.DefaultProject, records.Page{Limit: 1000})
	if err != nil {
		k.Fatal(err)
	}
	for _, s := range list.Data {
		ids = append(ids, s.ID)
	}
	return ids
}

// Conversations are counted and dated, `dashboard` once it has a turn.
func TestConversationStats(t *testing.T) {
	k := newKit(t)
	s, err := k.Sessions.Conversations(t.Context(), k.admin, ident.DefaultProject)
	if err != nil || s.ProjectID != ident.DefaultProject || s.Total != 0 || s.OldestAt != nil {
		t.Fatalf("of nothing: %+v, %v", s, err)
	}
	first := k.clock()
	k.post("b", user("x"))
	k.advance(aDay)
	if _, err := k.Sessions.Create(t.Context(), k.admin, access.Once{}, ident.DefaultProject, session.Spec{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	k.post("", user("x"))
	s, err = k.Sessions.Conversations(t.Context(), k.admin, ident.DefaultProject)
	if err != nil || s.Total != 3 || s.OldestAt == nil || !s.OldestAt.Equal(first) {
		t.Errorf("of three: %+v, %v", s, err)
	}
	_, err = k.Sessions.Conversations(t.Context(), k.admin, "nowhere")
	wantKind(t, err, fault.NotFound)
}

// Age counts from the last turn's commit to the millisecond, from its making where a session has none.
func TestPurgeByAge(t *testing.T) {
	k := newKit(t)
	k.post("old", user("first"))
	k.post("revived", user("first"))
	if _, err := k.Sessions.Create(t.Context(), k.admin, access.Once{}, ident.DefaultProject, session.Spec{ID: "empty"}); err != nil {
		t.Fatal(err)
	}
	k.advance(time.Millisecond)
	k.post("edge", user("first"))
	k.advance(10 * aDay)
	k.post("revived", user("again"))
	for _, c := range []struct {
		days, want int
	}{{11, 0}, {10, 2}} {
		if n := k.purge(c.days, true); n != c.want {
			t.Errorf("dry run of %d days: %d, want %d", c.days, n, c.want)
		}
		if k.total() != 4 {
			t.Fatal("a dry run deleted something")
		}
		if n := k.purge(c.days, false); n != c.want {
			t.Errorf("%d days: %d, want %d", c.days, n, c.want)
		}
		if n := k.purge(c.days, false); n != 0 {
			t.Errorf("%d days once more: %d", c.days, n)
		}
	}
	if got := fmt.Sprint(k.sessions()); got != "[edge revived]" {
		t.Errorf("what stayed: %s", got)
	}
	audit, err := k.Tenants.ListAudit(t.Context(), k.admin, records.Page{})
	if err != nil || len(audit.Data) != 1 || audit.Data[0].Action != "conversations.purge" ||
		audit.Data[0].Subject != ident.DefaultProject || audit.Data[0].KeyID != "test" ||
		!strings.Contains(audit.Data[0].Detail, "2 conversations") {
		t.Errorf("the audit log says %+v, %v", audit.Data, err)
	}
}

func TestPurgeRefuses(t *testing.T) {
	k := newKit(t)
	for project, days := range map[string]int{"nowhere": 1, ident.DefaultProject: -1} {
		_, err := k.Sessions.PurgeConversations(t.Context(), k.admin, session.PurgeSpec{ProjectID: project, OlderThanDays: days})
		if err == nil {
			t.Errorf("%s, %d days: taken", project, days)
		}
	}
	narrow := k.admin
	narrow.Projects = []string{"other"}
	_, err := k.Sessions.PurgeConversations(t.Context(), narrow, session.PurgeSpec{ProjectID: ident.DefaultProject})
	wantKind(t, err, fault.NotFound)
}

// After a purge of all, nothing of any conversation is in the store, nor of a window asked for before its session was.
func TestPurgeOfAllLeavesNothing(t *testing.T) {
	k := newKit(t)
	for i := range 3 {
		id := fmt.Sprint("s", i)
		k.ask(`{"session_id":"%s","pending":[{"role":"user","content":"confidential-text"}]}`, id)
		k.post(id, user("confidential-text"), call("c", "confidential-tool"))
		k.post(id, result("c", strings.Repeat("confidential-text ", 50_000)))
		k.ask(`{"session_id":"%s","system":"confidential-text","budget":{"max_tokens":0}}`, id)
	}
	k.post("", user("confidential-text"))
	if n := k.purge(0, false); n != 4 {
		t.Errorf("purged %d", n)
	}
	// An empty dashboard is no conversation, but may have been given a title.
	if _, err := k.Sessions.Create(t.Context(), k.admin, access.Once{}, ident.DefaultProject,
		session.Spec{ID: ident.DefaultSession, Title: "confidential-title"}); err != nil {
		t.Fatal(err)
	}
	w := k.ask(`{"session_id":"never-made","pending":[{"role":"user","content":"confidential-text"}]}`)
	k.advance(time.Minute)
	if n := k.purge(0, true) + k.purge(0, false); n != 0 {
		t.Errorf("purged %d more", n)
	}
	k.drain()
	for _, word := range []string{"confidential", "s1\x00", "never-made"} {
		if k.holds(ident.DefaultTenant, word) {
			t.Errorf("the store still holds %q", word)
		}
	}
	_, err := k.Windows.Decision(t.Context(), k.admin, ident.DefaultProject, w.DecisionID, nil)
	wantKind(t, err, fault.Gone)
	k.post("s1", user("new life"))
	after := k.ask(`{"session_id":"s1"}`)
	k.drain()
	if after.Usage["history_messages"] != 1 {
		t.Errorf("a session made again shows %s", after.raw)
	}
	k.replay(after.DecisionID)
}

// meddler runs do once, before the commit that deletes a head, and before at every commit.
type meddler struct {
	store.Store
	once   sync.Once
	do     func()
	before func(tenant string)
}

func (m *meddler) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if m.before != nil {
		m.before(tenant)
	}
	for _, key := range b.Delete {
		if m.do != nil && key[0] == 'h' {
			m.once.Do(m.do)
		}
	}
	return m.Store.Commit(ctx, tenant, b)
}

// A conversation that gets a turn between being chosen and being deleted stays, whole; the others go.
func TestPurgeSparesWhatIsUsedMeanwhile(t *testing.T) {
	m := &meddler{Store: memstore.New()}
	k := openKit(t, m)
	for _, id := range []string{"a", "b", "c"} {
		k.post(id, user("old"))
	}
	k.advance(30 * aDay)
	m.do = func() { k.post("b", user("new")) }
	if n := k.purge(7, false); n != 2 {
		t.Errorf("purged %d, want 2", n)
	}
	k.drain()
	if got := fmt.Sprint(k.sessions()); got != "[b]" {
		t.Errorf("what stayed: %s", got)
	}
	if w := k.ask(`{"session_id":"b"}`); w.Usage["history_messages"] != 2 {
		t.Errorf("it shows %s", w.raw)
	}
}

// A purge goes through more sessions than one of its commits holds, also while they are written to.
func TestPurgeOfMany(t *testing.T) {
	k := newKit(t)
	for i := range 1203 {
		_, err := k.Sessions.Create(t.Context(), k.admin, access.Once{}, ident.DefaultProject, session.Spec{ID: fmt.Sprintf("s%04d", i)})
		if err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				req := session.TurnRequest{SessionID: fmt.Sprintf("s%04d", 600+w), Messages: []json.RawMessage{json.RawMessage(user("x"))}}
				if _, err := k.Sessions.AppendTurn(t.Context(), k.admin, access.Once{}, ident.DefaultProject, req); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	n := k.purge(0, false)
	close(stop)
	writers.Wait()
	if n < 1203 {
		t.Errorf("purged %d of 1203", n)
	}
	if k.purge(0, false); k.total() != 0 {
		t.Errorf("%d are left", k.total())
	}
}
