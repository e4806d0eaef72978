package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// The daily job applies each project's retention to its conversations, once a day, and records that in the audit log.
func TestRetentionIsDaily(t *testing.T) {
	k := enginetest.New(t)
	for _, p := range []string{"forever", "month", "week"} {
		k.MakeProject(p)
	}
	k.SetIn("month", `{"conversation_retention_days":30}`)
	k.SetIn("week", `{"conversation_retention_days":7}`)
	for _, p := range []string{"forever", "month", "week"} {
		req := session.TurnRequest{SessionID: "s", Messages: enginetest.Raw(enginetest.User("confidential in " + p))}
		if _, err := k.Sessions.AppendTurn(t.Context(), k.Admin, ident.Once{}, p, req); err != nil {
			t.Fatal(err)
		}
	}
	k.Drain() // that day's job
	left := func() (out []string) {
		for _, p := range []string{"forever", "month", "week"} {
			if k.Holds(ident.DefaultTenant, "confidential in "+p) {
				out = append(out, p)
			}
		}
		return out
	}
	for _, c := range []struct {
		days time.Duration
		want string
	}{{6, "[forever month week]"}, {2, "[forever month]"}, {21, "[forever month]"}, {2, "[forever]"}, {400, "[forever]"}} {
		k.Advance(c.days * enginetest.ADay)
		k.Drain()
		if got := fmt.Sprint(left()); got != c.want {
			t.Errorf("on %s: %s, want %s", k.Clock(), got, c.want)
		}
	}
	audit, err := k.Tenants.ListAudit(t.Context(), k.Admin, records.Page{})
	if err != nil || len(audit.Data) != 1 || audit.Data[0].Subject != "month" || audit.Data[0].KeyID != "" ||
		audit.Data[0].Action != "conversations.expire" {
		t.Errorf("the audit log says %+v, %v", audit.Data, err) // the entry about `week` has expired itself
	}
}

// The job runs once per period, whichever process runs it: a restarted engine uses the stored record.
func TestRetentionSurvivesRestarts(t *testing.T) {
	k := enginetest.New(t)
	k.SetIn(ident.DefaultProject, `{"conversation_retention_days":1}`)
	k.Drain()
	k.Advance(time.Hour)
	k.Post("s", enginetest.User("x"))
	k.Advance(22 * time.Hour)
	again := enginetest.Open(t, k.Store)
	again.Now = k.Clock()
	again.Drain()
	if again.Total() != 1 {
		t.Fatal("removed before its time")
	}
	again.Advance(2 * time.Hour) // past the period, and two hours short of a day for the session
	again.Drain()
	if again.Total() != 1 {
		t.Fatal("removed before its time")
	}
	again.Advance(12 * time.Hour) // long past it, but the next run is due in 11 hours
	again.Drain()
	if again.Total() != 1 {
		t.Fatal("the job ran twice in a period")
	}
	late := enginetest.Open(t, k.Store)
	late.Now = again.Clock().Add(12 * time.Hour)
	late.Drain()
	if late.Total() != 0 {
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

// If one kind of data cannot be removed, others still are; Step does not stay busy, and retries soon.
func TestRetentionGoesRoundTrouble(t *testing.T) {
	s := &stuck{Store: memstore.New()}
	k := enginetest.Open(t, s)
	k.SetIn(ident.DefaultProject, `{"conversation_retention_days":1}`)
	k.MakeProject("zz") // comes after the one with the error
	k.Post("old", enginetest.User("x"))
	w := k.Ask(`{"session_id":"none"}`)
	k.Drain()
	k.Advance(20 * enginetest.ADay)
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
	if failures == 0 || k.Total() != 0 {
		t.Errorf("%d failures, %d conversations left", failures, k.Total())
	}
	s.stuck.Store(false)
	k.Drain()
	if _, err := k.Trials.Decision(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID); err != nil {
		t.Fatal("the job did not wait:", err)
	}
	k.Advance(time.Hour)
	k.Drain()
	_, err := k.Trials.Decision(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID)
	enginetest.WantKind(t, err, fault.NotFound)
}

// On demand the job runs at once and reports what it removed, from all projects.
func TestRetentionOnDemand(t *testing.T) {
	k := enginetest.New(t)
	k.Drain()
	k.MakeProject("other")
	k.SetIn("other", `{"conversation_retention_days":2}`)
	for i := range 700 { // more than one piece
		req := session.TurnRequest{SessionID: fmt.Sprint("s", i), Messages: enginetest.Raw(enginetest.User("x"))}
		if _, err := k.Sessions.AppendTurn(t.Context(), k.Admin, ident.Once{}, "other", req); err != nil {
			t.Fatal(err)
		}
	}
	k.Post("kept", enginetest.User("x"))
	k.Ask(`{}`)
	k.Advance(9 * enginetest.ADay)
	run, err := k.Jobs.RunRetention(t.Context(), k.Admin)
	if err != nil || !run.Finished || run.Removed["conversations"] != 700 || run.Removed["decisions"] == 0 {
		t.Errorf("%+v, %v", run, err)
	}
	if again, err := k.Jobs.RunRetention(t.Context(), k.Admin); err != nil || again.Removed["conversations"] != 0 || !again.Finished {
		t.Errorf("once more: %+v, %v", again, err)
	}
	if k.Total() != 1 {
		t.Error("another project lost something")
	}
	narrow := k.Admin
	narrow.Projects = []string{"other"}
	_, err = k.Jobs.RunRetention(t.Context(), narrow)
	enginetest.WantKind(t, err, fault.Forbidden)
}

// readCounter counts reads.
type readCounter struct {
	store.Store
	reads atomic.Int64
}

func (c *readCounter) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	c.reads.Add(1)
	return c.Store.Read(ctx, tenant, q)
}

// Work that this process queued is found without scanning all tenants, and a scan visits each tenant once, however
// many have work.
func TestStepScalesWithTenants(t *testing.T) {
	c := &readCounter{Store: memstore.New()}
	k := enginetest.Open(t, c)
	const tenants = 300
	var admins []ident.Caller
	for i := range tenants {
		made, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: fmt.Sprintf("t%03d", i)})
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
		k.Drain()
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
		req := session.TurnRequest{Messages: enginetest.Raw(enginetest.User("confidential"))}
		if _, err := k.Sessions.AppendTurn(t.Context(), a, ident.Once{}, ident.DefaultProject, req); err != nil {
			t.Fatal(err)
		}
		if err := k.Sessions.Delete(t.Context(), a, ident.DefaultProject, ident.DefaultSession); err != nil {
			t.Fatal(err)
		}
	}
	before := c.reads.Load()
	holds := func() bool {
		return k.Holds("t000", "confidential") || k.Holds("t001", "confidential") || k.Holds("t002", "confidential")
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

// Work that one process queued is found by another's scan.
func TestStepFindsWhatOthersQueued(t *testing.T) {
	k := enginetest.New(t)
	k.Drain()
	other := enginetest.Open(t, k.Store)
	other.Drain()
	k.Post("s", enginetest.User("confidential"))
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "s"); err != nil {
		t.Fatal(err)
	}
	other.Drain()
	if k.Holds(ident.DefaultTenant, "confidential") {
		t.Error("the other process did not sweep it")
	}
	if !strings.Contains(fmt.Sprint(k.SessionIDs()), "[]") {
		t.Error("the session is listed")
	}
}
