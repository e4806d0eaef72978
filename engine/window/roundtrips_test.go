package window_test

import (
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// TestRoundTrips counts what a turn and a window ask of the store, which may be a network away. The key is read
// besides, once for each request.
func TestRoundTrips(t *testing.T) {
	raw := &enginetest.Counting{Store: memstore.New()}
	writer, other := enginetest.Open(t, raw), enginetest.Open(t, raw) // two servers over one store
	made, err := writer.Tenants.CreateKey(t.Context(), writer.Admin, ident.Once{},
		tenant.KeySpec{Name: "k", Role: ident.RoleTenantAdmin.String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*enginetest.Kit{writer, other} {
		for commits := 1; commits >= 0; commits-- { // that it was used is written once a minute, and waits for no disk
			raw.Reset()
			if k.Admin, err = k.Tenants.Authenticate(t.Context(), made.Key); err != nil {
				t.Fatal(err)
			}
			if raw.Reads != 1 || raw.Commits > commits {
				t.Errorf("a key: %d reads, %d commits", raw.Reads, raw.Commits)
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
		raw.Reset()
		c.call()
		t.Logf("%s: %d reads, %d commits", c.name, raw.Reads, raw.Commits)
		if raw.Reads > c.reads || raw.Commits > c.commits {
			t.Errorf("%s: %d reads, %d commits; at most %d and %d", c.name, raw.Reads, raw.Commits, c.reads, c.commits)
		}
	}
}

// A tenant's policy costs no round trip: its record comes with project and head.
func TestPoliciesCostNoRoundTrip(t *testing.T) {
	raw := &enginetest.Counting{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	k.Upload("p", enginetest.Keeping("round trip"))
	k.Post("s", enginetest.User("a"))
	reads := func() int {
		k.Ask(`{"session_id":"s"}`) // so that all is in memory
		raw.Reset()
		k.Ask(`{"session_id":"s"}`)
		return raw.Reads
	}
	without := reads()
	k.SetPipeline(`[{"policy":"p"},{"policy":"tool-pair-trim"}]`)
	if with := reads(); with != without {
		t.Errorf("%d reads with a policy of the tenant's, %d without", with, without)
	}
}

// A version whose schema does not take what the settings say cannot be made live, and a failing one is not set back to
// it.
func TestConfigThatDoesNotFit(t *testing.T) {
	k := enginetest.New(t)
	schema := func(key string, code []byte) []byte {
		return wasmtest.Policy(`{"abi":"1.0","hooks":["assemble"],"config":{"`+key+`":{"type":"integer","default":1}}}`, code)
	}
	k.Upload("p", schema("old", wasmtest.Keep()))
	k.Upload("p", schema("new", wasmtest.Trap()))
	k.Post("s", enginetest.User("a"))
	k.SetPipeline(`[{"policy":"p","config":{"old":2}},{"policy":"tool-pair-trim"}]`)
	_, err := k.Policies.SetLive(t.Context(), k.Admin, "p", policy.LiveSpec{Version: 2})
	if e := enginetest.RefusedWith(t, err, fault.Conflict, "config_conflict"); !strings.Contains(e.Detail, `"default"`) {
		t.Error(e)
	}
	k.SetPipeline(`null`)
	k.SetLive("p", 2)
	k.SetPipeline(`[{"policy":"p","config":{"new":2}},{"policy":"tool-pair-trim"}]`)
	var w enginetest.Window
	for range 5 {
		if w = k.Ask(`{"session_id":"s"}`); w.Pipeline[0].Outcome != "trap" {
			t.Fatalf("%s", w.Raw)
		}
	}
	if w = k.Ask(`{"session_id":"s"}`); w.Pipeline[0].Outcome != "trap" || w.Pipeline[1].Outcome != "ok" || k.Live("p") != 2 {
		t.Fatalf("set back to a version that does not take the settings: live %d, %s", k.Live("p"), w.Raw)
	}
	k.Replay(w.DecisionID)
	d, err := k.Trials.Decision(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID)
	if err != nil || d.Report == nil {
		t.Errorf("%+v %v", d, err)
	}
}
