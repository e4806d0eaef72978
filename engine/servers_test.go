package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// servers returns engines on one store, like several server processes: they share nothing else, and create different
// ids.
func servers(t testing.TB, raw store.Store, n int, change ...func(*engine.Options)) []*enginetest.Kit {
	t.Helper()
	var out []*enginetest.Kit
	for i := range n {
		ids := &enginetest.LockedReader{R: rand.NewChaCha8([32]byte{byte(i), 7})}
		out = append(out, enginetest.Open(t, raw, append(slices.Clone(change), func(o *engine.Options) { o.Random = ids })...))
	}
	return out
}

// A change on one server applies on all others from the next request on.
func TestChangesHoldOnAllServers(t *testing.T) {
	on := servers(t, memstore.New(), 3)
	for i := range 6 {
		on[i%3].Post("s", enginetest.User(fmt.Sprint("m", i)))
	}
	count := func(k *enginetest.Kit) int { return k.Ask(`{"session_id":"s"}`).Usage["history_messages"] }
	for step, change := range []struct {
		do   func(k *enginetest.Kit)
		want int
	}{
		{func(*enginetest.Kit) {}, 6},
		{func(k *enginetest.Kit) { k.SetIn(ident.DefaultProject, `{"history_max_messages":2}`) }, 2},
		{func(k *enginetest.Kit) { k.SetIn(ident.DefaultProject, `{"history_max_messages":0}`) }, 6},
		{func(k *enginetest.Kit) {
			k.Upload("own", wasmtest.Policy(wasmtest.Manifest("first"), wasmtest.DropFirst()))
			k.SetPipeline(`[{"policy":"own"}]`)
		}, 5},
		{func(k *enginetest.Kit) {
			k.Upload("own", wasmtest.Policy(wasmtest.Manifest("second"), wasmtest.Keep()))
		}, 5},
		{func(k *enginetest.Kit) { k.SetLive("own", 2) }, 6},
		{func(k *enginetest.Kit) { k.SetLive("own", 1) }, 5},
	} {
		change.do(on[step%3])
		for i, k := range on {
			if got := count(k); got != change.want {
				t.Errorf("step %d: server %d shows %d messages, want %d", step, i, got, change.want)
			}
		}
	}
	key := on[0].MakeKey(tenant.KeySpec{Name: "k", Role: ident.RoleAgent.String()})
	for _, k := range on {
		if _, err := k.Tenants.Authenticate(t.Context(), key.Key); err != nil {
			t.Fatal(err)
		}
	}
	if err := on[1].Tenants.DeleteKey(t.Context(), on[1].Admin, key.ID); err != nil {
		t.Fatal(err)
	}
	for i, k := range on {
		if _, err := k.Tenants.Authenticate(t.Context(), key.Key); err == nil {
			t.Errorf("server %d takes a key that another one revoked", i)
		}
	}
	if err := on[2].Sessions.Delete(t.Context(), on[2].Admin, ident.DefaultProject, "s"); err != nil {
		t.Fatal(err)
	}
	for i, k := range on {
		if _, err := k.Sessions.Get(t.Context(), k.Admin, ident.DefaultProject, "s"); err == nil {
			t.Errorf("server %d shows a session that another one deleted", i)
		}
	}
}

// One request sent to all servers at once, repeatedly, is stored once, and all return the same answer.
func TestOneRequestToAllServers(t *testing.T) {
	on := servers(t, memstore.New(), 3)
	const requests = 20
	answers := make([][]string, requests)
	var mu sync.Mutex
	var group sync.WaitGroup
	for n := range requests {
		for _, k := range on {
			group.Go(func() {
				req := session.TurnRequest{SessionID: "s", Messages: []json.RawMessage{json.RawMessage(enginetest.User(fmt.Sprint("m", n)))}}
				once := ident.Once{Key: fmt.Sprint("key", n), Body: [32]byte{byte(n)}}
				got, err := k.Sessions.AppendTurn(t.Context(), k.Admin, once, ident.DefaultProject, req)
				answer, _ := json.Marshal(got)
				if err != nil {
					t.Errorf("request %d: %v", n, err)
				}
				mu.Lock()
				defer mu.Unlock()
				answers[n] = append(answers[n], string(answer))
			})
		}
	}
	group.Wait()
	turns := map[int]bool{}
	for n, got := range answers {
		var answer session.TurnResponse
		if err := json.Unmarshal([]byte(got[0]), &answer); err != nil {
			t.Fatal(err)
		}
		turns[int(answer.Turn)] = true
		if len(slices.Compact(got)) != 1 {
			t.Errorf("request %d was answered with %q", n, got)
		}
	}
	for i, k := range on {
		if s := k.GetSession("s"); int(s.Turns) != requests || len(turns) != requests {
			t.Errorf("server %d counts %d turns, %d were answered, want %d", i, s.Turns, len(turns), requests)
		}
	}
}

// interposed calls a function once, just before the first commit that a condition selects.
type interposed struct {
	store.Store
	mu   sync.Mutex
	when func(tenant string, b store.Batch) bool
	do   func()
}

func (s *interposed) Commit(ctx context.Context, tenant string, b store.Batch) error {
	s.mu.Lock()
	do := s.do
	if do == nil || !s.when(tenant, b) {
		do = func() {}
	} else {
		s.do = nil
	}
	s.mu.Unlock()
	do()
	return s.Store.Commit(ctx, tenant, b)
}

// A server that removes expired data late does not remove what was stored again meanwhile.
func TestLateExpiryRemovesNothingNew(t *testing.T) {
	raw := memstore.New()
	late := &interposed{Store: raw}
	k, slow := servers(t, raw, 1)[0], servers(t, late, 1)[0]
	post := func() int {
		req := session.TurnRequest{SessionID: "s", Messages: []json.RawMessage{json.RawMessage(enginetest.User("once"))}}
		got, err := k.Sessions.AppendTurn(t.Context(), k.Admin, ident.Once{Key: "k"}, ident.DefaultProject, req)
		if err != nil {
			t.Fatal(err)
		}
		return int(got.Turn)
	}
	post()
	for _, k := range []*enginetest.Kit{k, slow} {
		k.Advance(25 * time.Hour)
	}
	late.when = func(_ string, b store.Batch) bool { return len(b.Delete) > 0 && b.Delete[0][0] == 'x' }
	late.do = func() {
		k.Drain()
		if got := post(); got != 2 {
			t.Errorf("the key is used again, as turn %d", got)
		}
	}
	slow.Drain()
	if late.do != nil {
		t.Fatal("nothing expired")
	}
	if got := post(); got != 2 {
		t.Errorf("the answer that was given last is forgotten: the request is turn %d now", got)
	}
}

// The daily job advances on one server: another one that did the same step does not change the job's record.
func TestDailyJobIsMovedOnByOne(t *testing.T) {
	raw := memstore.New()
	late := &interposed{Store: raw}
	k, slow := servers(t, raw, 1)[0], servers(t, late, 1)[0]
	k.Post("s", enginetest.User("a"))
	k.Drain()
	state := func() string {
		for _, it := range k.Everything(ident.DefaultTenant) {
			if string(it.Key) == "r\x00" {
				return string(it.Value)
			}
		}
		return ""
	}
	for _, k := range []*enginetest.Kit{k, slow} {
		k.Advance(25 * time.Hour)
	}
	slow.Advance(time.Hour) // its record would have another time
	var after string
	late.when = func(tenant string, b store.Batch) bool {
		return tenant == ident.DefaultTenant && len(b.Put) == 1 && string(b.Put[0].Key) == "r\x00"
	}
	late.do = func() {
		k.Drain()
		after = state()
	}
	slow.Drain()
	if got := state(); late.do != nil || after == "" || got != after {
		t.Errorf("the job is %s, was moved on to %s", got, after)
	}
}

// Servers of two versions on one store: each runs its own built-ins, however often each starts; the other's decisions
// can be replayed, and its built-ins can be named.
func TestServersOfTwoVersions(t *testing.T) {
	raw := memstore.New()
	var padding wasmtest.Module
	padding.Custom("padding", []byte("another build"))
	newer := func(o *engine.Options) {
		o.BuiltIns = slices.Clone(o.BuiltIns)
		for i, b := range o.BuiltIns {
			o.BuiltIns[i].Wasm = append(slices.Clone(b.Wasm), padding.Bytes()[8:]...)
		}
	}
	old := servers(t, raw, 1)[0]
	for i := range 60 {
		old.Post("s", enginetest.User(fmt.Sprint("m", i)))
	}
	young := servers(t, raw, 1, newer)[0]
	restarted := servers(t, raw, 1)[0]
	again := servers(t, raw, 1, newer)[0]
	const name = "depth-compress"
	for i, c := range []struct {
		k    *enginetest.Kit
		live int
	}{{old, 1}, {young, 2}, {restarted, 1}, {again, 2}} {
		p, err := c.k.Policies.Get(t.Context(), c.k.Admin, name)
		if err != nil || p.Live != c.live || len(p.Versions) != 2 || p.Versions[c.live-1].State != "live" {
			t.Errorf("server %d: %+v, error %v", i, p, err)
		}
		c.k.Advance(time.Duration(i) * time.Millisecond) // otherwise the same ids would be created at the same time
		w := c.k.Ask(`{"session_id":"s"}`)
		for _, step := range w.Pipeline {
			if step.Outcome != "ok" {
				t.Errorf("server %d: %s ends with %s", i, step.Policy, step.Outcome)
			}
		}
		for _, other := range []*enginetest.Kit{old, young, restarted, again} {
			other.Replay(w.DecisionID)
		}
	}
	// An old server runs a version that only a newer one brought, even on first use.
	for _, k := range []*enginetest.Kit{servers(t, raw, 1)[0], old, young} {
		for version := 1; version <= 2; version++ {
			w := k.Ask(`{"session_id":"s","pipeline":[{"policy":"%s@%d"}],"budget":{"max_messages":0,"max_tokens":0}}`, name, version)
			if len(w.Pipeline) != 1 || w.Pipeline[0].Outcome != "ok" {
				t.Errorf("%s@%d: %+v", name, version, w.Pipeline)
			}
		}
		_, err := k.TryAsk(fmt.Sprintf(`{"session_id":"s","pipeline":[{"policy":"%s@3"}]}`, name))
		enginetest.WantKind(t, err, fault.Invalid)
	}
	wantClean(t, enginetest.Verified(t, raw))
}

// If a database crashes below running servers, it may lose the settings that decisions share. They are soon stored
// again: later decisions can be replayed.
func TestDecisionsAfterTheStoreLostSome(t *testing.T) {
	raw := memstore.New()
	k := servers(t, raw, 1)[0]
	k.Post("s", enginetest.User("a"))
	before := k.Ask(`{"session_id":"s"}`)
	var b store.Batch
	for _, it := range k.Everything(ident.DefaultTenant) {
		if store.IsLoose(it.Key) {
			b.Delete = append(b.Delete, it.Key)
		}
	}
	if err := raw.Commit(t.Context(), ident.DefaultTenant, b); err != nil || len(b.Delete) < 2 {
		t.Fatal(len(b.Delete), err)
	}
	k.Advance(11 * time.Second)
	k.Replay(k.Ask(`{"session_id":"s"}`).DecisionID)
	_, err := k.Windows.Replay(t.Context(), k.Admin, ident.DefaultProject, before.DecisionID, nil)
	enginetest.WantKind(t, err, fault.NotFound)
}

// A due summary is made by one server, although all of them look for work at once.
func TestSummaryIsMadeByOneServer(t *testing.T) {
	model := &enginetest.Scribe{}
	on := servers(t, memstore.New(), 3, enginetest.SummariseWith(model))
	on[0].SetIn(ident.DefaultProject, `{"summary_enabled":true,"session_history_depth":100}`)
	const sessions = 12
	for i := range sessions {
		name := fmt.Sprint("s", i)
		on[i%3].Say(name, 1, 41)
		on[(i+1)%3].Ask(`{"session_id":%q,"budget":{"max_messages":0,"max_tokens":0}}`, name)
	}
	for _, k := range on {
		k.Advance(time.Minute)
	}
	var group sync.WaitGroup
	for _, k := range on {
		group.Go(func() {
			for more := true; more; {
				var err error
				if more, err = k.Step(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	on[0].Drain()
	if model.Calls() != sessions {
		t.Errorf("%d calls of the model for %d sessions", model.Calls(), sessions)
	}
	for i := range sessions {
		if s := on[i%3].GetSession(fmt.Sprint("s", i)); s.SummarizedCount != 29 || *s.Summary != strings.Join(enginetest.UpTo(29), " ") {
			t.Errorf("session %d: %+v", i, s)
		}
	}
}

// Memories are stored and forgotten on all servers while all of them put documents into blocks: each server finds
// exactly what exists, and the store is intact.
func TestRecallOnAllServers(t *testing.T) {
	raw := memstore.New()
	on := servers(t, raw, 3)
	const each = 60
	var group sync.WaitGroup
	for i, k := range on {
		group.Go(func() {
			for n := range each {
				key := fmt.Sprintf("m%d-%d", i, n)
				k.Remember(memory.Spec{Key: key, Content: fmt.Sprintf("harbour lantern number%dx%d", i, n)})
				if n%4 == 0 {
					k.Forget(key)
				}
				if n%10 == 0 {
					if _, err := k.Step(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	look := func() {
		t.Helper()
		for i := range on {
			for n := range each {
				want := []string{fmt.Sprintf("m%d-%d", i, n)}
				if n%4 == 0 {
					want = nil
				}
				if got := on[(i+n)%3].Found(recall.Query{Query: fmt.Sprintf("number%dx%d", i, n)}); !slices.Equal(got, want) {
					t.Errorf("number%dx%d finds %v, want %v", i, n, got, want)
				}
			}
		}
	}
	look()
	for _, k := range on {
		group.Go(func() {
			for more := true; more; {
				var err error
				if more, err = k.Step(t.Context()); err != nil && !errors.As(err, new(*store.ConflictError)) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	look()
	wantClean(t, enginetest.Verified(t, raw))
}
