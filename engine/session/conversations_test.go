package session_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

func purge(k *enginetest.Kit, days int, dry bool) int {
	k.Helper()
	out, err := k.Sessions.PurgeConversations(k.Context(), k.Admin,
		session.PurgeSpec{ProjectID: ident.DefaultProject, OlderThanDays: days, DryRun: dry})
	if err != nil {
		k.Fatal(err)
	}
	if out.OlderThanDays != days || out.DryRun != dry {
		k.Errorf("purge answers %+v", out)
	}
	return out.DeletedConversations
}

// Conversations are counted with the date of the oldest one. `dashboard` counts once it has a turn.
func TestConversationStats(t *testing.T) {
	k := enginetest.New(t)
	s, err := k.Sessions.Conversations(t.Context(), k.Admin, ident.DefaultProject)
	if err != nil || s.ProjectID != ident.DefaultProject || s.Total != 0 || s.OldestAt != nil {
		t.Fatalf("of nothing: %+v, %v", s, err)
	}
	first := k.Clock()
	k.Post("b", enginetest.User("x"))
	k.Advance(enginetest.ADay)
	if _, err := k.Sessions.Create(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, session.Spec{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	k.Post("", enginetest.User("x"))
	s, err = k.Sessions.Conversations(t.Context(), k.Admin, ident.DefaultProject)
	if err != nil || s.Total != 3 || s.OldestAt == nil || !s.OldestAt.Equal(first) {
		t.Errorf("of three: %+v, %v", s, err)
	}
	_, err = k.Sessions.Conversations(t.Context(), k.Admin, "nowhere")
	enginetest.WantKind(t, err, fault.NotFound)
}

// The age of a session counts from the commit of its last turn, to the millisecond, or from its creation if it has
// none.
func TestPurgeByAge(t *testing.T) {
	k := enginetest.New(t)
	k.Post("old", enginetest.User("first"))
	k.Post("revived", enginetest.User("first"))
	if _, err := k.Sessions.Create(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, session.Spec{ID: "empty"}); err != nil {
		t.Fatal(err)
	}
	k.Advance(time.Millisecond)
	k.Post("edge", enginetest.User("first"))
	k.Advance(10 * enginetest.ADay)
	k.Post("revived", enginetest.User("again"))
	for _, c := range []struct {
		days, want int
	}{{11, 0}, {10, 2}} {
		if n := purge(k, c.days, true); n != c.want {
			t.Errorf("dry run of %d days: %d, want %d", c.days, n, c.want)
		}
		if k.Total() != 4 {
			t.Fatal("a dry run deleted something")
		}
		if n := purge(k, c.days, false); n != c.want {
			t.Errorf("%d days: %d, want %d", c.days, n, c.want)
		}
		if n := purge(k, c.days, false); n != 0 {
			t.Errorf("%d days once more: %d", c.days, n)
		}
	}
	if got := fmt.Sprint(k.SessionIDs()); got != "[edge revived]" {
		t.Errorf("what stayed: %s", got)
	}
	audit, err := k.Tenants.ListAudit(t.Context(), k.Admin, records.Page{})
	if err != nil || len(audit.Data) != 1 || audit.Data[0].Action != "conversations.purge" ||
		audit.Data[0].Subject != ident.DefaultProject || audit.Data[0].KeyID != "test" ||
		!strings.Contains(audit.Data[0].Detail, "2 conversations") {
		t.Errorf("the audit log says %+v, %v", audit.Data, err)
	}
}

func TestPurgeRefuses(t *testing.T) {
	k := enginetest.New(t)
	for project, days := range map[string]int{"nowhere": 1, ident.DefaultProject: -1} {
		_, err := k.Sessions.PurgeConversations(t.Context(), k.Admin, session.PurgeSpec{ProjectID: project, OlderThanDays: days})
		if err == nil {
			t.Errorf("%s, %d days: taken", project, days)
		}
	}
	narrow := k.Admin
	narrow.Projects = []string{"other"}
	_, err := k.Sessions.PurgeConversations(t.Context(), narrow, session.PurgeSpec{ProjectID: ident.DefaultProject})
	enginetest.WantKind(t, err, fault.NotFound)
}

// After a purge of everything, the store holds nothing of any conversation, and nothing of a window that was requested
// before its session existed.
func TestPurgeOfAllLeavesNothing(t *testing.T) {
	k := enginetest.New(t)
	for i := range 3 {
		id := fmt.Sprint("s", i)
		k.Ask(`{"session_id":"%s","pending":[{"role":"user","content":"confidential-text"}]}`, id)
		k.Post(id, enginetest.User("confidential-text"), enginetest.Call("c", "confidential-tool"))
		k.Post(id, enginetest.Result("c", strings.Repeat("confidential-text ", 50_000)))
		k.Ask(`{"session_id":"%s","system":"confidential-text","budget":{"max_tokens":0}}`, id)
	}
	k.Post("", enginetest.User("confidential-text"))
	if n := purge(k, 0, false); n != 4 {
		t.Errorf("purged %d", n)
	}
	// An empty dashboard is not a conversation, but may have a title.
	if _, err := k.Sessions.Create(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		session.Spec{ID: ident.DefaultSession, Title: "confidential-title"}); err != nil {
		t.Fatal(err)
	}
	w := k.Ask(`{"session_id":"never-made","pending":[{"role":"user","content":"confidential-text"}]}`)
	k.Advance(time.Minute)
	if n := purge(k, 0, true) + purge(k, 0, false); n != 0 {
		t.Errorf("purged %d more", n)
	}
	k.Drain()
	for _, word := range []string{"confidential", "s1\x00", "never-made"} {
		if k.Holds(ident.DefaultTenant, word) {
			t.Errorf("the store still holds %q", word)
		}
	}
	_, err := k.Trials.Decision(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID)
	enginetest.WantKind(t, err, fault.Gone)
	k.Post("s1", enginetest.User("new life"))
	after := k.Ask(`{"session_id":"s1"}`)
	k.Drain()
	if after.Usage["history_messages"] != 1 {
		t.Errorf("a session made again shows %s", after.Raw)
	}
	k.Replay(after.DecisionID)
}

// A conversation that gets a turn after it was selected and before it is deleted is kept whole; the others are deleted.
func TestPurgeSparesWhatIsUsedMeanwhile(t *testing.T) {
	m := &enginetest.Meddler{Store: memstore.New()}
	k := enginetest.Open(t, m)
	for _, id := range []string{"a", "b", "c"} {
		k.Post(id, enginetest.User("old"))
	}
	k.Advance(30 * enginetest.ADay)
	m.Do = func() { k.Post("b", enginetest.User("new")) }
	if n := purge(k, 7, false); n != 2 {
		t.Errorf("purged %d, want 2", n)
	}
	k.Drain()
	if got := fmt.Sprint(k.SessionIDs()); got != "[b]" {
		t.Errorf("what stayed: %s", got)
	}
	if w := k.Ask(`{"session_id":"b"}`); w.Usage["history_messages"] != 2 {
		t.Errorf("it shows %s", w.Raw)
	}
}

// A purge handles more sessions than fit into one of its commits, also while they are being written to.
func TestPurgeOfMany(t *testing.T) {
	k := enginetest.New(t)
	for i := range 1203 {
		_, err := k.Sessions.Create(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, session.Spec{ID: fmt.Sprintf("s%04d", i)})
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
				req := session.TurnRequest{SessionID: fmt.Sprintf("s%04d", 600+w), Messages: []json.RawMessage{json.RawMessage(enginetest.User("x"))}}
				if _, err := k.Sessions.AppendTurn(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, req); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	n := purge(k, 0, false)
	close(stop)
	writers.Wait()
	if n < 1203 {
		t.Errorf("purged %d of 1203", n)
	}
	purge(k, 0, false)
	if k.Total() != 0 {
		t.Errorf("%d are left", k.Total())
	}
}
