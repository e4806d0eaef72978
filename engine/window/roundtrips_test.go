package window_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// TestRoundTrips counts what a turn and a window ask of the store, which may be a network away. The key is read
// besides, once for each request.
func TestRoundTrips(t *testing.T) {
	raw := &counting{Store: memstore.New()}
	writer, other := enginetest.Open(t, raw), enginetest.Open(t, raw) // two servers over one store
	made, err := writer.Tenants.CreateKey(t.Context(), writer.Admin, access.Once{},
		tenant.KeySpec{Name: "k", Role: access.RoleTenantAdmin.String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*enginetest.Kit{writer, other} {
		for commits := 1; commits >= 0; commits-- { // that it was used is written once a minute, and waits for no disk
			raw.reset()
			if k.Admin, err = k.Tenants.Authenticate(t.Context(), made.Key); err != nil {
				t.Fatal(err)
			}
			if raw.reads != 1 || raw.commits > commits {
				t.Errorf("a key: %d reads, %d commits", raw.reads, raw.commits)
			}
		}
	}
	turn := func(k *enginetest.Kit) func() {
		return func() {
			k.Post("s", enginetest.User("question"), calls(1), enginetest.Result("c0", "found"), enginetest.Assistant("answer"))
		}
	}
	window := func(k *enginetest.Kit) func() { return func() { k.Ask(`{"session_id":"s"}`) } }
	for _, c := range []struct {
		name           string
		call           func()
		reads, commits int // at most; commits of windows are decisions, which wait for no disk
	}{
		{"the first turn of all", turn(writer), 2, 1},
		{"a turn", turn(writer), 1, 1},
		{"the first window", window(writer), 3, 2},
		{"a window", window(writer), 1, 1},
		{"the first turn on another server", turn(other), 2, 1},
		{"a turn on another server", turn(other), 1, 1},
		{"a turn behind another server's", turn(writer), 1, 1},
		{"a window behind another server's turns", window(writer), 3, 1},
		{"the first window on another server", window(other), 3, 2},
		{"a window again on another server", window(other), 1, 1},
	} {
		raw.reset()
		c.call()
		t.Logf("%s: %d reads, %d commits", c.name, raw.reads, raw.commits)
		if raw.reads > c.reads || raw.commits > c.commits {
			t.Errorf("%s: %d reads, %d commits; at most %d and %d", c.name, raw.reads, raw.commits, c.reads, c.commits)
		}
	}
}
