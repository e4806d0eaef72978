package engine_test

import (
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// A clock that leaps a month ahead at a restart removes nothing fresh: no conversation, no memory, no board entry.
// After a day with that clock it is trusted.
func TestLeapRemovesNothingFresh(t *testing.T) {
	raw := memstore.New()
	k := enginetest.Open(t, raw)
	days := 7
	k.SetIn(ident.DefaultProject, `{"conversation_retention_days":7}`)
	k.Post("s", enginetest.User("hello"))
	k.Remember(memory.Spec{Key: "note", Content: "a note of the day", Category: "daily"})
	if _, _, err := k.Boards.Put(t.Context(), k.Admin, "b", board.Spec{RetentionDays: &days}); err != nil {
		t.Fatal(err)
	}
	k.Write("b", "fresh")
	k.Advance(2 * time.Minute)
	k.Drain()

	start, up := k.Now.AddDate(0, 1, 0), time.Duration(0)
	k = enginetest.Open(t, raw, func(o *engine.Options) {
		o.Now, o.Uptime = func() time.Time { return start.Add(up) }, func() time.Duration { return up }
	})
	look := func() (conversations, memories, entries int) {
		t.Helper()
		k.Drain()
		if _, err := k.Jobs.RunRetention(t.Context(), k.Admin); err != nil {
			t.Fatal(err)
		}
		for range k.Everything(ident.DefaultTenant) {
			memories++
		}
		return k.Total(), memories, len(k.Contents("b", board.Query{}))
	}
	if k.AsOf() == nil {
		t.Error("nothing tells of the clock")
	}
	conversations, before, entries := look()
	if conversations != 1 || entries != 1 || !k.Holds(ident.DefaultTenant, "a note of the day") {
		t.Errorf("%d conversations and %d entries are left", conversations, entries)
	}
	dry, err := k.Sessions.PurgeConversations(t.Context(), k.Admin, session.PurgeSpec{ProjectID: ident.DefaultProject,
		OlderThanDays: 7, DryRun: true})
	if err != nil || dry.DeletedConversations != 0 || dry.AsOf == nil {
		t.Errorf("a purge would delete %+v, %v", dry, err)
	}
	up = 23 * time.Hour
	if k.AsOf() == nil {
		t.Error("the clock is believed after 23 hours")
	}
	look()
	up = 25 * time.Hour
	if k.AsOf() != nil {
		t.Error("the clock is not believed after a day")
	}
	conversations, after, entries := look()
	if conversations != 0 || entries != 0 || after >= before || k.Holds(ident.DefaultTenant, "a note of the day") {
		t.Errorf("a day later %d conversations and %d entries are left", conversations, entries)
	}
}

// A clock that goes back does not bring back what has expired, not even over a restart.
func TestClockBackRevivesNothing(t *testing.T) {
	raw := memstore.New()
	k := enginetest.Open(t, raw)
	began, ends := k.Now, k.Now.Add(time.Hour)
	key := k.MakeKey(tenant.KeySpec{ExpiresAt: &ends})
	k.Advance(2 * time.Hour)
	k.Drain()
	k.Now = began
	if _, err := k.Tenants.Authenticate(t.Context(), key.Key); err == nil {
		t.Error("the expired key is known where the clock went back")
	}
	k = enginetest.Open(t, raw) // whose clock begins where the first one did
	if _, err := k.Tenants.Authenticate(t.Context(), key.Key); err == nil {
		t.Error("the expired key is known after a restart")
	}
}
