package engine_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

func (k *kit) key(spec tenant.KeySpec) tenant.KeyCreated {
	k.Helper()
	if spec.Role == "" {
		spec.Role = "agent"
	}
	made, err := k.Tenants.CreateKey(k.Context(), k.admin, access.Once{}, spec)
	if err != nil {
		k.Fatal(err)
	}
	return made
}

func (k *kit) lastUse(id string) *time.Time {
	k.Helper()
	list, err := k.Tenants.ListKeys(k.Context(), k.admin, records.Page{Limit: 1000})
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

// A key tells when it was last used, at a price of one write a minute; a restart knows it to the minute.
func TestKeysLastUse(t *testing.T) {
	k := newKit(t)
	made, unused := k.key(tenant.KeySpec{Name: "a"}), k.key(tenant.KeySpec{Name: "b"})
	if k.lastUse(made.ID) != nil {
		t.Error("a key that was never used says when")
	}
	records := func() (n int) {
		for _, it := range k.everything(ident.DefaultTenant) {
			if len(it.Key) > 2 && it.Key[0] == store.Loose && it.Key[1] == 'u' {
				n++
			}
		}
		return n
	}
	start := k.clock()
	use := func() {
		if _, err := k.Tenants.Authenticate(t.Context(), made.Key); err != nil {
			t.Fatal(err)
		}
	}
	use()
	for range 3 {
		k.advance(15 * time.Second)
		use()
	}
	if at := k.lastUse(made.ID); at == nil || !at.Equal(start.Add(45*time.Second)) {
		t.Errorf("last use %v, want %v", at, start.Add(45*time.Second))
	}
	again := openKit(t, k.store)
	if at := again.lastUse(made.ID); at == nil || !at.Equal(start) {
		t.Errorf("after a restart within the minute: %v, want the one written, %v", at, start)
	}
	k.advance(15 * time.Second) // a minute since the last write
	use()
	if at := openKit(t, k.store).lastUse(made.ID); at == nil || !at.Equal(start.Add(time.Minute)) {
		t.Errorf("after a minute: %v", at)
	}
	if _, err := k.Tenants.Authenticate(t.Context(), unused.Key+"x"); err == nil {
		t.Fatal("a wrong key works")
	}
	if k.lastUse(unused.ID) != nil {
		t.Error("a wrong secret counts as a use")
	}
	if n := records(); n != 1 {
		t.Errorf("%d records of uses, want 1", n)
	}
	if err := k.Tenants.DeleteKey(t.Context(), k.admin, made.ID); err != nil {
		t.Fatal(err)
	}
	if records() != 0 {
		t.Error("the use outlives its key")
	}
}

// A key works up to the millisecond before it expires, and the secret before a rotation up to its end.
func TestKeysEndAtTheInstant(t *testing.T) {
	k := newKit(t)
	works := func(token string) bool {
		_, err := k.Tenants.Authenticate(t.Context(), token)
		return err == nil
	}
	at := k.clock().Add(time.Hour)
	made := k.key(tenant.KeySpec{ExpiresAt: &at})
	rotating := k.key(tenant.KeySpec{})
	k.advance(time.Hour - time.Millisecond)
	if !works(made.Key) {
		t.Error("it ends before its time")
	}
	k.advance(time.Millisecond)
	if works(made.Key) {
		t.Error("it works at the instant that it expires")
	}
	next, err := k.Tenants.RotateKey(t.Context(), k.admin, access.Once{}, rotating.ID)
	if err != nil {
		t.Fatal(err)
	}
	k.advance(next.PreviousValidUntil.Sub(k.clock()) - time.Millisecond)
	if !works(rotating.Key) || !works(next.Key) {
		t.Error("a secret ends before its time")
	}
	k.advance(time.Millisecond)
	if works(rotating.Key) || !works(next.Key) {
		t.Error("at the end of the overlap the wrong secret works")
	}
	if _, err := k.Tenants.RotateKey(t.Context(), k.admin, access.Once{}, made.ID); err != nil {
		t.Fatal(err)
	}
	if works(made.Key) {
		t.Error("rotation revives an expired key")
	}
}

// While a key is rotated, both of its last two secrets work at every moment, for everybody.
func TestRotationHasNoGap(t *testing.T) {
	k := newKit(t)
	made := k.key(tenant.KeySpec{})
	var current atomic.Pointer[string] // the last secret that was given out
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
				// A secret that two rotations have overtaken meanwhile is rightly refused.
				if err != nil && token == current.Load() {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 50 {
		before := *current.Load()
		next, err := k.Tenants.RotateKey(t.Context(), k.admin, access.Once{}, made.ID)
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
