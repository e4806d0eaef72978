package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/insight/lab"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// What a pipeline names or what is live cannot be deleted; what is deleted is gone, and a replay names it.
func TestDeletingPolicies(t *testing.T) {
	k := enginetest.New(t)
	drop := wasmtest.Policy(wasmtest.Manifest("delete"), wasmtest.DropFirst())
	k.Upload("p", enginetest.Keeping("delete 1"))
	k.Upload("p", drop)
	k.Upload("p", enginetest.Keeping("delete 3"))
	k.Upload("same", drop) // the same bytes under another name
	version := func(n int) error { return k.Policies.DeleteVersion(t.Context(), k.Admin, "p", n) }
	policy := func(name string) error { return k.Policies.Delete(t.Context(), k.Admin, name) }
	k.Post("s", enginetest.User("a"))
	k.Post("s", enginetest.User("b"))
	byTwo := k.Ask(`{"session_id":"s","pipeline":[{"policy":"p@2"}]}`).DecisionID
	byThree := k.Ask(`{"session_id":"s","pipeline":[{"policy":"p@3"}]}`).DecisionID

	enginetest.RefusedWith(t, version(1), fault.Conflict, "policy_in_use") // live
	k.SetPipeline(`[{"policy":"p@2"}]`)
	enginetest.RefusedWith(t, version(2), fault.Conflict, "policy_in_use") // pinned
	enginetest.RefusedWith(t, policy("p"), fault.Conflict, "policy_in_use")
	k.SetPipeline(`[{"policy":"p"}]`)
	enginetest.RefusedWith(t, policy("p"), fault.Conflict, "policy_in_use")
	for _, n := range []int{2, 3} { // nobody names them
		if err := version(n); err != nil {
			t.Fatal(err)
		}
		enginetest.RefusedWith(t, version(n), fault.NotFound, "not_found")
	}
	k.Replay(byTwo) // its bytes are still those of the other policy
	_, err := k.Windows.Replay(t.Context(), k.Admin, ident.DefaultProject, byThree, nil)
	if e := enginetest.RefusedWith(t, err, fault.Gone, "module_purged"); !strings.Contains(e.Detail, "p@3") {
		t.Error(e)
	}
	enginetest.RefusedWith(t, version(1), fault.Conflict, "policy_in_use") // the last, and named
	k.SetPipeline(`null`)
	if err := version(1); err != nil {
		t.Fatal(err)
	}
	enginetest.RefusedWith(t, policy("p"), fault.NotFound, "not_found")
	enginetest.RefusedWith(t, policy("tool-pair-trim"), fault.Conflict, "built_in_policy")
	if err := policy("same"); err != nil {
		t.Fatal(err)
	}
	_, err = k.Windows.Replay(t.Context(), k.Admin, ident.DefaultProject, byTwo, nil)
	enginetest.RefusedWith(t, err, fault.Gone, "module_purged")
	shown, err := k.Trials.Decision(t.Context(), k.Admin, ident.DefaultProject, byThree)
	if err != nil || !strings.Contains(shown.Purged, "p@3") {
		t.Errorf("%+v %v", shown, err)
	}
	// Nothing is left but the entries that tell of it.
	left := dump(k, k.Admin.Tenant)
	if len(left) != 1 || left['a'] != 8 {
		t.Errorf("%v left", left)
	}
}

// dump counts the records of policies by the first letter of their keys.
func dump(k *enginetest.Kit, tenant string) map[byte]int {
	k.Helper()
	r, err := k.Store.Read(k.Context(), tenant, store.Query{Ranges: []store.Range{{KeysOnly: true}}})
	if err != nil {
		k.Fatal(err)
	}
	out := map[byte]int{}
	for _, it := range r.Ranges[0] {
		if strings.IndexByte("gywa\xff", it.Key[0]) >= 0 {
			out[it.Key[0]]++
		}
	}
	return out
}

// between is a store that does something else before the first commit that writes or deletes a key.
type between struct {
	store.Store
	key  []byte
	then func()
}

func (b *between) Commit(ctx context.Context, tenant string, batch store.Batch) error {
	mine := slices.ContainsFunc(batch.Delete, func(key []byte) bool { return bytes.Equal(key, b.key) }) ||
		slices.ContainsFunc(batch.Put, func(p store.Pair) bool { return bytes.Equal(p.Key, b.key) })
	if then := b.then; mine && then != nil {
		b.then = nil
		then()
	}
	return b.Store.Commit(ctx, tenant, batch)
}

// A pipeline never ends up naming a policy that was deleted at the same time, whichever comes first.
func TestDeletionAndSettingsTakeTurns(t *testing.T) {
	raw := &between{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	k.Upload("p", enginetest.Keeping("race"))
	set := func() error {
		patch := json.RawMessage(`{"pipeline":[{"policy":"p"}]}`)
		_, err := k.Projects.PatchSettings(t.Context(), k.Admin, ident.DefaultProject, patch)
		return err
	}
	remove := func() error { return k.Policies.Delete(t.Context(), k.Admin, "p") }
	var other error
	raw.key, raw.then = []byte("g\x00p\x00"), func() { other = set() }
	enginetest.RefusedWith(t, remove(), fault.Conflict, "policy_in_use")
	if other != nil || raw.then != nil {
		t.Fatal(other)
	}
	k.SetPipeline(`null`)
	raw.key, raw.then = []byte("p\x00default\x00"), func() { other = remove() }
	enginetest.RefusedWith(t, set(), fault.Invalid, "unknown_policy")
	if other != nil || raw.then != nil {
		t.Fatal(other)
	}
}

// The quota counts versions and bytes, and deleting makes room.
func TestPolicyQuota(t *testing.T) {
	size := int64(len(enginetest.Keeping("quota 1")))
	k := enginetest.Open(t, memstore.New(), func(o *engine.Options) {
		o.Policies = policy.Quota{Versions: 3,
			Bytes: 2*size + 10}
	})
	k.Upload("p", enginetest.Keeping("quota 1"))
	k.Upload("p", enginetest.Keeping("quota 2"))
	try := func(name, version string) error {
		_, _, err := k.Policies.Upload(t.Context(), k.Admin, ident.Once{}, name, enginetest.Keeping(version))
		return err
	}
	enginetest.RefusedWith(t, try("q", "quota 3"), fault.NoSpace, "quota_exceeded")
	if err := try("p", "quota 2"); err != nil {
		t.Errorf("bytes that are there: %v", err)
	}
	if err := k.Policies.DeleteVersion(t.Context(), k.Admin, "p", 2); err != nil {
		t.Fatal(err)
	}
	if v := k.Upload("p", enginetest.Keeping("quota 4")); v.Version != 3 {
		t.Errorf("version %d: numbers are not used again", v.Version)
	}
	k = enginetest.Open(t, memstore.New(), func(o *engine.Options) { o.Policies = policy.Quota{Versions: 1} })
	k.Upload("p", enginetest.Keeping("quota 1"))
	enginetest.RefusedWith(t, try("q", "quota 1"), fault.NoSpace, "quota_exceeded")
}

// An Idempotency-Key makes an upload count once, with the first answer.
func TestUploadOnce(t *testing.T) {
	k := enginetest.New(t)
	once := ident.Once{Key: "k", Body: [32]byte{1}}
	for range 2 {
		v, created, err := k.Policies.Upload(t.Context(), k.Admin, once, "p", enginetest.Keeping("once"))
		if err != nil || !created || v.Version != 1 || v.Digest == "" || len(v.Checks) == 0 {
			t.Fatalf("%+v %v %v", v, created, err)
		}
	}
	once.Body = [32]byte{2}
	_, _, err := k.Policies.Upload(t.Context(), k.Admin, once, "p", enginetest.Keeping("once 2"))
	enginetest.RefusedWith(t, err, fault.Invalid, "idempotency_key_reused")
}

// Tenants neither see nor call one another's policies, be the names and bytes the same.
func TestPoliciesAreApart(t *testing.T) {
	k := enginetest.New(t)
	if _, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: "other"}); err != nil {
		t.Fatal(err)
	}
	other := &enginetest.Kit{TB: t, Engine: k.Engine, Admin: k.Admin}
	other.Admin.Tenant = "other"
	drop := wasmtest.Policy(wasmtest.Manifest("apart"), wasmtest.DropFirst())
	k.Upload("mine", drop)
	k.Upload("both", drop)
	other.Upload("both", enginetest.Keeping("apart"))
	other.Post("s", enginetest.User("a"))
	other.Post("s", enginetest.User("b"))
	_, err := other.TryAsk(`{"session_id":"s","pipeline":[{"policy":"mine"}]}`)
	enginetest.RefusedWith(t, err, fault.Invalid, "unknown_policy")
	if w := other.Ask(`{"session_id":"s","pipeline":[{"policy":"both"}]}`); len(w.Messages) != 2 {
		t.Errorf("%s", w.Raw)
	}
	_, err = other.Policies.Get(t.Context(), other.Admin, "mine")
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
	_, err = other.Policies.GetVersion(t.Context(), other.Admin, "mine", 1)
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
	_, err = other.Trials.Run(t.Context(), other.Admin, "mine", 1,
		&lab.RunRequest{Messages: []json.RawMessage{}}, nil)
	enginetest.RefusedWith(t, err, fault.NotFound, "not_found")
	list, err := other.Policies.List(t.Context(), other.Admin, records.Page{})
	if err != nil || slices.ContainsFunc(list.Data, func(p policy.Policy) bool { return p.Name == "mine" }) {
		t.Errorf("%+v %v", list, err)
	}
	audit, err := other.Tenants.ListAudit(t.Context(), other.Admin, records.Page{})
	if err != nil || len(audit.Data) != 1 || audit.Data[0].Subject != "both@1" {
		t.Errorf("%+v %v", audit, err)
	}
}

// Listings hold built-ins and the tenant's own by name, in pages that leave nothing out.
func TestListingPolicies(t *testing.T) {
	k := enginetest.New(t)
	for i, name := range []string{"zebra", "alpha", "middle", "depth"} {
		k.Advance(time.Second)
		k.Upload(name, enginetest.Keeping(fmt.Sprint("list ", i)))
	}
	want := []string{"alpha", "dedupe", "delegation-filter", "depth", "depth-compress", "guard-trust", "middle",
		"redact-secrets", "refuse-noise", "summarise", "tool-pair-trim", "tool-result-clear", "zebra"}
	for limit := 1; limit <= 13; limit++ {
		var got []string
		page := records.Page{Limit: limit}
		for more := true; more; {
			list, err := k.Policies.List(t.Context(), k.Admin, page)
			if err != nil || len(list.Data) > limit || list.HasMore != (list.NextCursor != nil) {
				t.Fatalf("%+v %v", list, err)
			}
			for _, p := range list.Data {
				got = append(got, p.Name)
			}
			if more = list.HasMore; more {
				page.Cursor = *list.NextCursor
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
	audit, err := k.Tenants.ListAudit(t.Context(), k.Admin, records.Page{Limit: 3})
	if err != nil || len(audit.Data) != 3 || !audit.HasMore || audit.Data[0].Subject != "depth@1" ||
		audit.Data[2].Subject != "alpha@1" ||
		audit.Data[0].KeyID != "test" || audit.Data[0].Role != "tenant_admin" {
		t.Errorf("%+v %v", audit, err)
	}
	v, err := k.Policies.GetVersion(t.Context(), k.Admin, "depth-compress", 1)
	if err != nil || v.State != "live" || v.Config["depth"].Type != "integer" || len(v.Checks) == 0 {
		t.Errorf("%+v %v", v, err)
	}
	k.Advance(401 * 24 * time.Hour)
	k.Drain()
	if audit, err = k.Tenants.ListAudit(t.Context(), k.Admin, records.Page{}); err != nil || len(audit.Data) != 0 {
		t.Errorf("%+v %v", audit, err)
	}
}
