package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

func (k *kit) setIn(project, settings string) {
	k.Helper()
	if _, err := k.Projects.PatchSettings(k.Context(), k.admin, project, json.RawMessage(settings)); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) project(id string) {
	k.Helper()
	if _, _, err := k.Projects.Put(k.Context(), k.admin, id, project.Spec{}); err != nil {
		k.Fatal(err)
	}
}

// The daily job holds each project's conversations against its own setting, once a day, and says so in the audit log.
func TestRetentionIsDaily(t *testing.T) {
	k := newKit(t)
	for _, p := range []string{"forever", "month", "week"} {
		k.project(p)
	}
	k.setIn("month", `{"conversation_retention_days":30}`)
	k.setIn("week", `{"conversation_retention_days":7}`)
	for _, p := range []string{"forever", "month", "week"} {
		req := session.TurnRequest{SessionID: "s", Messages: raw(user("confidential in " + p))}
		if _, err := k.Sessions.AppendTurn(t.Context(), k.admin, access.Once{}, p, req); err != nil {
			t.Fatal(err)
		}
	}
	k.drain() // the job of this day
	left := func() (out []string) {
		for _, p := range []string{"forever", "month", "week"} {
			if k.holds(ident.DefaultTenant, "confidential in "+p) {
				out = append(out, p)
			}
		}
		return out
	}
	for _, c := range []struct {
		days time.Duration
		want string
	}{{6, "[forever month week]"}, {2, "[forever month]"}, {21, "[forever month]"}, {2, "[forever]"}, {400, "[forever]"}} {
		k.advance(c.days * aDay)
		k.drain()
		if got := fmt.Sprint(left()); got != c.want {
			t.Errorf("on %s: %s, want %s", k.clock(), got, c.want)
		}
	}
	audit, err := k.Tenants.ListAudit(t.Context(), k.admin, records.Page{})
	if err != nil || len(audit.Data) != 1 || audit.Data[0].Subject != "month" || audit.Data[0].KeyID != "" ||
		audit.Data[0].Action != "conversations.expire" {
		t.Errorf("the audit log says %+v, %v", audit.Data, err) // the entry on `week` is past its own life
	}
}

// The job runs once a period, whoever drives it: an engine that is started anew goes by the record.
func TestRetentionSurvivesRestarts(t *testing.T) {
	k := newKit(t)
	k.setIn(ident.DefaultProject, `{"conversation_retention_days":1}`)
	k.drain()
	k.advance(time.Hour)
	k.post("s", user("x"))
	k.advance(22 * time.Hour)
	again := openKit(t, k.store)
	again.now = k.clock()
	again.drain()
	if again.total() != 1 {
		t.Fatal("removed before its time")
	}
	again.advance(2 * time.Hour) // past the period, and two hours short of a day for the session
	again.drain()
	if again.total() != 1 {
		t.Fatal("removed before its time")
	}
	again.advance(12 * time.Hour) // long past it, but the next run is due in 11 hours
	again.drain()
	if again.total() != 1 {
		t.Fatal("the job ran twice in a period")
	}
	late := openKit(t, k.store)
	late.now = again.clock().Add(12 * time.Hour)
	late.drain()
	if late.total() != 0 {
		t.Error("not removed after the restart")
	}
}

// stuck is a store whose loose keys cannot be deleted while it is stuck.
type stuck struct {
	store.Store
	stuck atomic.Bool
}

func (s *stuck) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if s.stuck.Load() && len(b.Delete) > 0 && store.IsLoose(b.Delete[0]) {
		return errors.New("stuck")
	}
	return s.Store.Commit(ctx, tenant, b)
}

// A kind of data that cannot be removed keeps no other from it, does not keep Step busy, and is tried again soon.
func TestRetentionGoesRoundTrouble(t *testing.T) {
	s := &stuck{Store: memstore.New()}
	k := openKit(t, s)
	k.setIn(ident.DefaultProject, `{"conversation_retention_days":1}`)
	k.project("zz") // comes after the one in trouble
	k.post("old", user("x"))
	w := k.ask(`{"session_id":"none"}`)
	k.drain()
	k.advance(20 * aDay)
	s.stuck.Store(true)
	failures := 0
	for more := true; more; {
		var err error
		if more, err = k.Step(t.Context()); err != nil {
			failures++
		}
		if failures > 10 {
			t.Fatal("Step tries the same again and again")
		}
	}
	if failures == 0 || k.total() != 0 {
		t.Errorf("%d failures, %d conversations left", failures, k.total())
	}
	s.stuck.Store(false)
	k.drain()
	if _, err := k.Windows.Decision(t.Context(), k.admin, ident.DefaultProject, w.DecisionID, nil); err != nil {
		t.Fatal("the job did not wait:", err)
	}
	k.advance(time.Hour)
	k.drain()
	_, err := k.Windows.Decision(t.Context(), k.admin, ident.DefaultProject, w.DecisionID, nil)
	wantKind(t, err, fault.NotFound)
}

// On demand the job runs at once and says what it removed, of all projects.
func TestRetentionOnDemand(t *testing.T) {
	k := newKit(t)
	k.drain()
	k.project("other")
	k.setIn("other", `{"conversation_retention_days":2}`)
	for i := range 700 { // more than one piece
		req := session.TurnRequest{SessionID: fmt.Sprint("s", i), Messages: raw(user("x"))}
		if _, err := k.Sessions.AppendTurn(t.Context(), k.admin, access.Once{}, "other", req); err != nil {
			t.Fatal(err)
		}
	}
	k.post("kept", user("x"))
	k.ask(`{}`)
	k.advance(9 * aDay)
	run, err := k.Jobs.RunRetention(t.Context(), k.admin)
	if err != nil || !run.Finished || run.Removed["conversations"] != 700 || run.Removed["decisions"] == 0 {
		t.Errorf("%+v, %v", run, err)
	}
	if again, err := k.Jobs.RunRetention(t.Context(), k.admin); err != nil || again.Removed["conversations"] != 0 || !again.Finished {
		t.Errorf("once more: %+v, %v", again, err)
	}
	if k.total() != 1 {
		t.Error("another project lost something")
	}
	narrow := k.admin
	narrow.Projects = []string{"other"}
	_, err = k.Jobs.RunRetention(t.Context(), narrow)
	wantKind(t, err, fault.Forbidden)
}

// readCounter counts what is read.
type readCounter struct {
	store.Store
	reads atomic.Int64
}

func (c *readCounter) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	c.reads.Add(1)
	return c.Store.Read(ctx, tenant, q)
}

// Work that this process queued is found without a look at all tenants, and a look goes over each once, however many
// of them have something to do.
func TestStepScalesWithTenants(t *testing.T) {
	c := &readCounter{Store: memstore.New()}
	k := openKit(t, c)
	const tenants = 300
	var admins []access.Caller
	for i := range tenants {
		made, err := k.CreateTenant(t.Context(), access.Once{}, tenant.Spec{ID: fmt.Sprintf("t%03d", i)})
		if err != nil {
			t.Fatal(err)
		}
		admin, err := k.Tenants.Authenticate(t.Context(), made.AdminKey)
		if err != nil {
			t.Fatal(err)
		}
		admins = append(admins, admin)
	}
	look := func() int64 {
		before := c.reads.Load()
		k.drain()
		return c.reads.Load() - before
	}
	first := look() // every tenant's daily job
	if idle := look(); idle > 3*tenants {
		t.Errorf("an idle look reads %d times for %d tenants", idle, tenants)
	}
	if first > 20*tenants {
		t.Errorf("a look with work everywhere reads %d times for %d tenants", first, tenants)
	}

	for _, a := range admins[:3] {
		req := session.TurnRequest{Messages: raw(user("confidential"))}
		if _, err := k.Sessions.AppendTurn(t.Context(), a, access.Once{}, ident.DefaultProject, req); err != nil {
			t.Fatal(err)
		}
		if err := k.Sessions.Delete(t.Context(), a, ident.DefaultProject, ident.DefaultSession); err != nil {
			t.Fatal(err)
		}
	}
	before := c.reads.Load()
	holds := func() bool {
		return k.holds("t000", "confidential") || k.holds("t001", "confidential") || k.holds("t002", "confidential")
	}
	for steps := 0; holds(); steps++ {
		if more, err := k.Step(t.Context()); err != nil || !more || steps > 100 {
			t.Fatalf("step %d: %v, %v", steps, more, err)
		}
	}
	if n := c.reads.Load() - before; n > 200 {
		t.Errorf("sweeping 3 sessions of %d tenants read %d times", tenants, n)
	}
}

// What one process queued, another finds by its look.
func TestStepFindsWhatOthersQueued(t *testing.T) {
	k := newKit(t)
	k.drain()
	other := openKit(t, k.store)
	other.drain()
	k.post("s", user("confidential"))
	if err := k.Sessions.Delete(t.Context(), k.admin, ident.DefaultProject, "s"); err != nil {
		t.Fatal(err)
	}
	other.drain()
	if k.holds(ident.DefaultTenant, "confidential") {
		t.Error("the other process did not sweep it")
	}
	if !strings.Contains(fmt.Sprint(k.sessions()), "[]") {
		t.Error("the session is listed")
	}
}
