package memory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

func wantQuota(t testing.TB, err error) {
	t.Helper()
	if e := enginetest.WantKind(t, err, fault.NoSpace); e.Code != "quota_exceeded" {
		t.Error(e)
	}
}

// A quota counts what was there before it, allows existing memories to be overwritten and forgotten, and frees what was
// forgotten, has expired, or is in a deleted project.
func TestMemoryQuota(t *testing.T) {
	raw := memstore.New()
	k := enginetest.Open(t, raw)
	k.Remember(memory.Spec{Key: "a", Content: "before the quota"})
	k = enginetest.Open(t, raw, enginetest.Quota(memory.Quota{Count: 3}))
	try := func(project, key, category string) error {
		_, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, project,
			memory.Spec{Key: key, Content: "x", Category: category})
		return err
	}
	if _, _, err := k.Projects.Put(t.Context(), k.Admin, "other", project.Spec{}); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{try("default", "b", "daily"), try("other", "c", "core")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantQuota(t, try("default", "d", ""))
	if err := try("default", "a", ""); err != nil {
		t.Errorf("overwriting at the limit: %v", err)
	}
	k.Forget("a")
	if err := try("default", "d", ""); err != nil {
		t.Errorf("after forgetting: %v", err)
	}
	wantQuota(t, try("default", "e", ""))
	if err := k.DeleteProject(t.Context(), k.Admin, "other"); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	k.Advance(2 * time.Second)
	if err := try("default", "e", ""); err != nil {
		t.Errorf("after a project was deleted: %v", err)
	}
	wantQuota(t, try("default", "f", ""))
	k.Advance(8 * 24 * time.Hour)
	k.Drain()
	if err := try("default", "f", ""); err != nil {
		t.Errorf("after one expired: %v", err)
	}
	made, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if k.Admin, err = k.Tenants.Authenticate(t.Context(), made.AdminKey); err != nil {
		t.Fatal(err)
	}
	if err := try("default", "a", ""); err != nil {
		t.Errorf("another tenant has its own quota: %v", err)
	}
}

// Bytes count earlier versions of a memory.
func TestMemoryQuotaOfBytes(t *testing.T) {
	k := enginetest.Open(t, memstore.New(), enginetest.Quota(memory.Quota{Bytes: 1000}))
	k.Remember(memory.Spec{Key: "k", Content: strings.Repeat("x", 400)})
	k.Remember(memory.Spec{Key: "k", Content: strings.Repeat("y", 400)})
	_, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		memory.Spec{Key: "k", Content: strings.Repeat("z", 400)})
	wantQuota(t, err)
	k.Remember(memory.Spec{Key: "k", Content: strings.Repeat("z", 200)})
	k.Forget("k")
	k.Remember(memory.Spec{Key: "k", Content: strings.Repeat("z", 1000)})
}

// However many store at once, the quota is not exceeded, and no memory that fits is rejected.
func TestMemoryQuotaHoldsUnderConcurrency(t *testing.T) {
	k := enginetest.Open(t, memstore.New(), enginetest.Quota(memory.Quota{Count: 10}))
	var group sync.WaitGroup
	var kept atomic.Int64
	for i := range 40 {
		group.Go(func() {
			_, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
				memory.Spec{Key: fmt.Sprint("k", i), Content: "x"})
			full := (*fault.Error)(nil)
			if err == nil {
				kept.Add(1)
			} else if !errors.As(err, &full) || full.Code != "quota_exceeded" {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := len(k.ListMemories(memory.Filter{}, 50)); got != 10 || kept.Load() != 10 {
		t.Errorf("%d memories are kept, %d were acknowledged", got, kept.Load())
	}
}

// Bytes count values and metadata like content, so that they cannot bypass the quota, and free them.
func TestMemoryQuotaOfValues(t *testing.T) {
	k := enginetest.Open(t, memstore.New(), enginetest.Quota(memory.Quota{Bytes: 1000}))
	large := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	store := func(key string, spec memory.Spec) error {
		spec.Key, spec.Content = key, "x"
		_, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, spec)
		return err
	}
	if err := store("a", memory.Spec{Value: large(600)}); err != nil {
		t.Fatal(err)
	}
	wantQuota(t, store("b", memory.Spec{Value: large(500)}))
	wantQuota(t, store("b", memory.Spec{Metadata: map[string]json.RawMessage{"m": large(500)}}))
	wantQuota(t, store("a", memory.Spec{Value: large(600)})) // the previous version counts, too
	move := func(m *memory.Memory) (memory.Spec, error) { return m.Spec(), nil }
	if err := k.Memories.Edit(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "a", "moved", move); err != nil {
		t.Errorf("moving at the limit: %v", err)
	}
	if !k.Forget("moved") || k.Forget("a") {
		t.Error("it was not moved")
	}
	if err := store("b", memory.Spec{Value: large(900)}); err != nil {
		t.Errorf("after forgetting: %v", err)
	}
}
