package policy_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
)

// TestFailedSelfTestsLeaveNoModule: a module that is loaded, compiled and then refused by its own tests is unloaded.
func TestFailedSelfTestsLeaveNoModule(t *testing.T) {
	var host policy.Host
	k := enginetest.Open(t, memstore.New(), func(o *engine.Options) { host = o.Host })
	fails := wasmtest.Policy(`{"abi":"1.0","hooks":["assemble"],"tests":[{"name":"drops",
		"messages":[`+enginetest.User("a")+`],"expect":["drop"]}]}`, wasmtest.Keep())
	_, _, err := k.Policies.Upload(t.Context(), k.Admin, ident.Once{}, "p", fails)
	e := enginetest.RefusedWith(t, err, fault.Invalid, "module_refused")
	if e.Refusal.Check != "self_tests" || host.Loaded(k.Admin.Tenant, sha256.Sum256(fails)) {
		t.Errorf("%v; loaded: %t", e, host.Loaded(k.Admin.Tenant, sha256.Sum256(fails)))
	}
	kept := enginetest.Keeping("kept")
	k.Upload("p", kept)
	if !host.Loaded(k.Admin.Tenant, sha256.Sum256(kept)) {
		t.Error("a module that was kept is not loaded")
	}
}

// busyHost holds uploads up while they are loaded, and notes how many are there at once.
type busyHost struct {
	policy.Host
	hold chan struct{} // nil: nothing is held up

	mu   sync.Mutex
	now  map[string]int
	most map[string]int
	all  int // the most of all tenants together
}

func (h *busyHost) Load(ctx context.Context, tenant string, code []byte) (plan.Policy, error) {
	h.mu.Lock()
	h.now[tenant]++
	h.most[tenant] = max(h.most[tenant], h.now[tenant])
	all := 0
	for _, n := range h.now {
		all += n
	}
	h.all = max(h.all, all)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.now[tenant]--
		h.mu.Unlock()
	}()
	if h.hold != nil {
		<-h.hold
	}
	return h.Host.Load(ctx, tenant, code)
}

// TestUploadsTakeTurns: a tenant's uploads are admitted one after the other, other tenants' beside them, and all are.
func TestUploadsTakeTurns(t *testing.T) {
	host := &busyHost{now: map[string]int{}, most: map[string]int{}}
	k := enginetest.Open(t, memstore.New(), func(o *engine.Options) { host.Host, o.Host = o.Host, host })
	callers := []ident.Caller{k.Admin}
	for i := range 3 {
		id := fmt.Sprint("tenant-", i)
		if _, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: id}); err != nil {
			t.Fatal(err)
		}
		callers = append(callers, ident.Caller{Tenant: id, Role: ident.RoleTenantAdmin})
	}
	clear(host.most)
	host.all = 0
	var uploads sync.WaitGroup
	for _, c := range callers {
		for i := range 8 {
			uploads.Go(func() {
				code := enginetest.Keeping(fmt.Sprint("turns ", i))
				if _, _, err := k.Policies.Upload(t.Context(), c, ident.Once{}, fmt.Sprint("p", i), code); err != nil {
					t.Error(err)
				}
			})
		}
	}
	uploads.Wait()
	for _, c := range callers {
		if host.most[c.Tenant] != 1 {
			t.Errorf("%d uploads of tenant %s at once", host.most[c.Tenant], c.Tenant)
		}
	}
	if host.all > 2 {
		t.Errorf("%d uploads at once", host.all)
	}
}

// TestUploadsWaitBounded: an upload that waits for others for too long is told so, and nothing of it was tried.
func TestUploadsWaitBounded(t *testing.T) {
	host := &busyHost{now: map[string]int{}, most: map[string]int{}}
	k := enginetest.Open(t, memstore.New(), func(o *engine.Options) { host.Host, o.Host = o.Host, host })
	synctest.Test(t, func(t *testing.T) {
		host.hold = make(chan struct{})
		upload := func(ctx context.Context, name string) error {
			_, _, err := k.Policies.Upload(ctx, k.Admin, ident.Once{}, name, enginetest.Keeping(name))
			return err
		}
		first := make(chan error)
		go func() { first <- upload(t.Context(), "first") }()
		synctest.Wait()
		began := time.Now()
		enginetest.RefusedWith(t, upload(t.Context(), "second"), fault.Unavailable, "uploads_waiting")
		if waited := time.Since(began); waited != 20*time.Second {
			t.Errorf("waited %v", waited)
		}
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := upload(hurried, "hurried"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		close(host.hold)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := upload(t.Context(), "third"); err != nil {
			t.Error(err)
		}
	})
}

// TestUploadsInLineAreBounded: each upload that waits holds its module in memory, so only so many of a tenant's wait.
func TestUploadsInLineAreBounded(t *testing.T) {
	host := &busyHost{now: map[string]int{}, most: map[string]int{}}
	k := enginetest.Open(t, memstore.New(), func(o *engine.Options) { host.Host, o.Host = o.Host, host })
	synctest.Test(t, func(t *testing.T) {
		host.hold = make(chan struct{})
		upload := func(name string) error {
			_, _, err := k.Policies.Upload(t.Context(), k.Admin, ident.Once{}, name, enginetest.Keeping("in line"))
			return err
		}
		ended := make(chan error)
		for i := range 17 {
			go func() { ended <- upload(fmt.Sprint("p", i)) }()
			synctest.Wait()
		}
		enginetest.RefusedWith(t, upload("one-more"), fault.Unavailable, "uploads_waiting")
		close(host.hold)
		for range 17 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
