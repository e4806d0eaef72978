package tenant_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

func lastUse(k *enginetest.Kit, id string) *time.Time {
	k.Helper()
	list, err := k.Tenants.ListKeys(k.Context(), k.Admin, records.Page{Limit: 1000})
	if err != nil {
		k.Fatal(err)
	}
	for _, key := range list.Data {
		if key.ID == id {
			return key.LastUsedAt
		}
	}
	k.Fatalf("no key %s", id)
	return nil
}

// A key shows when it was last used, at the cost of one write per minute. After a restart the time is accurate to a
// minute.
func TestKeysLastUse(t *testing.T) {
	k := enginetest.New(t)
	made, unused := k.MakeKey(tenant.KeySpec{Name: "a"}), k.MakeKey(tenant.KeySpec{Name: "b"})
	if lastUse(k, made.ID) != nil {
		t.Error("a key that was never used says when")
	}
	records := func() (n int) {
		for _, it := range k.Everything(ident.DefaultTenant) {
			if len(it.Key) > 2 && it.Key[0] == store.Loose && it.Key[1] == 'u' {
				n++
			}
		}
		return n
	}
	start := k.Clock()
	use := func() {
		if _, err := k.Tenants.Authenticate(t.Context(), made.Key); err != nil {
			t.Fatal(err)
		}
	}
	use()
	for range 3 {
		k.Advance(15 * time.Second)
		use()
	}
	if at := lastUse(k, made.ID); at == nil || !at.Equal(start.Add(45*time.Second)) {
		t.Errorf("last use %v, want %v", at, start.Add(45*time.Second))
	}
	again := enginetest.Open(t, k.Store)
	if at := lastUse(again, made.ID); at == nil || !at.Equal(start) {
		t.Errorf("after a restart within the minute: %v, want the one written, %v", at, start)
	}
	k.Advance(15 * time.Second) // a minute since the last write
	use()
	if at := lastUse(enginetest.Open(t, k.Store), made.ID); at == nil || !at.Equal(start.Add(time.Minute)) {
		t.Errorf("after a minute: %v", at)
	}
	if _, err := k.Tenants.Authenticate(t.Context(), unused.Key+"x"); err == nil {
		t.Fatal("a wrong key works")
	}
	if lastUse(k, unused.ID) != nil {
		t.Error("a wrong secret counts as a use")
	}
	if n := records(); n != 1 {
		t.Errorf("%d records of uses, want 1", n)
	}
	if err := k.Tenants.DeleteKey(t.Context(), k.Admin, made.ID); err != nil {
		t.Fatal(err)
	}
	if records() != 0 {
		t.Error("the use outlives its key")
	}
}

// A key works until the millisecond before it expires, and the secret before a rotation until its end.
func TestKeysEndAtTheInstant(t *testing.T) {
	k := enginetest.New(t)
	works := func(token string) bool {
		_, err := k.Tenants.Authenticate(t.Context(), token)
		return err == nil
	}
	at := k.Clock().Add(time.Hour)
	made := k.MakeKey(tenant.KeySpec{ExpiresAt: &at})
	rotating := k.MakeKey(tenant.KeySpec{})
	k.Advance(time.Hour - time.Millisecond)
	if !works(made.Key) {
		t.Error("it ends before its time")
	}
	k.Advance(time.Millisecond)
	if works(made.Key) {
		t.Error("it works at the instant that it expires")
	}
	next, err := k.Tenants.RotateKey(t.Context(), k.Admin, ident.Once{}, rotating.ID)
	if err != nil {
		t.Fatal(err)
	}
	k.Advance(next.PreviousValidUntil.Sub(k.Clock()) - time.Millisecond)
	if !works(rotating.Key) || !works(next.Key) {
		t.Error("a secret ends before its time")
	}
	k.Advance(time.Millisecond)
	if works(rotating.Key) || !works(next.Key) {
		t.Error("at the end of the overlap the wrong secret works")
	}
	if _, err := k.Tenants.RotateKey(t.Context(), k.Admin, ident.Once{}, made.ID); err != nil {
		t.Fatal(err)
	}
	if works(made.Key) {
		t.Error("rotation revives an expired key")
	}
}

// While a key is rotated, its last two secrets always work.
func TestRotationHasNoGap(t *testing.T) {
	k := enginetest.New(t)
	made := k.MakeKey(tenant.KeySpec{})
	var current atomic.Pointer[string] // the latest secret
	current.Store(&made.Key)
	stop := make(chan struct{})
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				token := current.Load()
				_, err := k.Tenants.Authenticate(t.Context(), *token)
				// A secret that has been rotated twice in the meantime is rightly refused.
				if err != nil && token == current.Load() {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 50 {
		before := *current.Load()
		next, err := k.Tenants.RotateKey(t.Context(), k.Admin, ident.Once{}, made.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{before, next.Key} {
			if _, err := k.Tenants.Authenticate(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}
		current.Store(&next.Key)
	}
	close(stop)
	users.Wait()
}
