package tenant_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// code returns the code of an engine's error; "" if there is none.
func code(t *testing.T, err error) string {
	t.Helper()
	known, ok := errors.AsType[*fault.Error](err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	if err == nil {
		return ""
	}
	return known.Code
}

func signIn(k *enginetest.Kit, key string) tenant.SignedIn {
	k.Helper()
	in, err := k.Tenants.SignIn(k.Context(), key, "")
	if err != nil {
		k.Fatal(err)
	}
	return in
}

func link(k *enginetest.Kit, key string) tenant.SignInLink {
	k.Helper()
	made, err := k.Tenants.MakeSignInLink(k.Context(), key)
	if err != nil {
		k.Fatal(err)
	}
	return made
}

// A sign-in lasts while it is used, for at most twelve hours, and ends after two hours without use. Checking it is not
// a use.
func TestSignInsEndByTheClock(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration // between two requests
		use   bool
		want  time.Duration // at which request it has ended; a multiple of every
	}{
		{"used", time.Hour, true, 12 * time.Hour},
		{"used just in time", 119 * time.Minute, true, 7 * 119 * time.Minute},
		{"idle", 2 * time.Hour, true, 2 * time.Hour},
		{"only looked at", 30 * time.Minute, false, 2 * time.Hour},
	} {
		k := enginetest.New(t)
		in := signIn(k, k.MakeKey(tenant.KeySpec{Name: "a"}).Key)
		if want := k.Clock().Add(12 * time.Hour); !in.ExpiresAt.Equal(want) {
			t.Errorf("%s: it says that it ends at %v, want %v", c.name, in.ExpiresAt, want)
		}
		lasted := time.Duration(0)
		for ; lasted < 24*time.Hour; lasted += c.every {
			_, err := k.Tenants.AuthenticateSignIn(t.Context(), in.Token, c.use)
			if got := code(t, err); got == "sign_in_ended" {
				break
			} else if got != "" {
				t.Fatal(err)
			}
			k.Advance(c.every)
		}
		if lasted != c.want {
			t.Errorf("%s: it ended after %v, want %v", c.name, lasted, c.want)
		}
	}
}

// Setting the clock back does not extend a sign-in or a link.
func TestSignInsAndTheClockSetBack(t *testing.T) {
	k := enginetest.New(t)
	key := k.MakeKey(tenant.KeySpec{Name: "a"}).Key
	in, made := signIn(k, key), link(k, key)
	k.Advance(3 * time.Hour)
	if _, err := k.Tenants.AuthenticateSignIn(t.Context(), in.Token, true); code(t, err) != "sign_in_ended" {
		t.Errorf("idle: %v", err)
	}
	k.Advance(-3 * time.Hour)
	if _, err := k.Tenants.AuthenticateSignIn(t.Context(), in.Token, true); code(t, err) != "sign_in_ended" {
		t.Errorf("idle, then the clock was set back: %v", err)
	}
	if _, err := k.Tenants.SignInByLink(t.Context(), made.Link, ""); code(t, err) != "link_ended" {
		t.Errorf("a link, then the clock was set back: %v", err)
	}
}

// A link works for a minute and not at its end.
func TestSignInLinksEnd(t *testing.T) {
	k := enginetest.New(t)
	key := k.MakeKey(tenant.KeySpec{Name: "a"}).Key
	for after, want := range map[time.Duration]string{59 * time.Second: "", time.Minute: "link_ended"} {
		made := link(k, key)
		k.Advance(after)
		in, err := k.Tenants.SignInByLink(t.Context(), made.Link, "")
		if got := code(t, err); got != want {
			t.Errorf("after %v: %q, want %q", after, got, want)
		}
		if want == "" {
			if c, err := k.Tenants.AuthenticateSignIn(t.Context(), in.Token, true); err != nil || c.Tenant != "default" {
				t.Errorf("%+v, %v", c, err)
			}
		}
	}
}

// A sign-in and a link end with the secret that they were made with, and give no access to what is later made under the
// same name.
func TestSignInsEndWithTheirKey(t *testing.T) {
	k := enginetest.New(t)
	expires := k.Clock().Add(30 * time.Minute)
	for _, c := range []struct {
		name string
		spec tenant.KeySpec
		end  func(id string) error
	}{
		{"deleted", tenant.KeySpec{Name: "a"}, func(id string) error {
			return k.Tenants.DeleteKey(t.Context(), k.Admin, id)
		}},
		{"expired", tenant.KeySpec{Name: "b", ExpiresAt: &expires}, func(string) error {
			k.Advance(30 * time.Minute)
			return nil
		}},
		{"rotated an hour ago", tenant.KeySpec{Name: "c"}, func(id string) error {
			_, err := k.Tenants.RotateKey(t.Context(), k.Admin, ident.Once{}, id)
			k.Advance(time.Hour)
			return err
		}},
		{"rotated twice", tenant.KeySpec{Name: "d"}, func(id string) error {
			_, err := k.Tenants.RotateKey(t.Context(), k.Admin, ident.Once{}, id)
			if err == nil {
				_, err = k.Tenants.RotateKey(t.Context(), k.Admin, ident.Once{}, id)
			}
			return err
		}},
	} {
		made := k.MakeKey(c.spec)
		in, l := signIn(k, made.Key), link(k, made.Key)
		if _, err := k.Tenants.AuthenticateSignIn(t.Context(), in.Token, true); err != nil {
			t.Errorf("%s: before: %v", c.name, err)
		}
		if err := c.end(made.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Tenants.AuthenticateSignIn(t.Context(), in.Token, true); code(t, err) != "sign_in_ended" {
			t.Errorf("%s: the sign-in: %v", c.name, err)
		}
		if _, err := k.Tenants.SignInByLink(t.Context(), l.Link, ""); code(t, err) != "link_ended" {
			t.Errorf("%s: the link: %v", c.name, err)
		}
	}
}

// meanwhile is a store in which something happens just before a commit.
type meanwhile struct {
	store.Store
	happens func(b store.Batch)
}

func (m *meanwhile) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if m.happens != nil {
		m.happens(b)
	}
	return m.Store.Commit(ctx, tenant, b)
}

// A use that is recorded while the browser signs out does not restore the sign-in.
func TestSignedOutStaysSignedOut(t *testing.T) {
	raw := &meanwhile{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	in := signIn(k, k.MakeKey(tenant.KeySpec{Name: "a"}).Key)
	k.Advance(time.Hour)
	raced := false
	raw.happens = func(b store.Batch) {
		if raced || len(b.Put) == 0 || !records.SignIn.Is(b.Put[0].Key) {
			return
		}
		raced = true
		if err := k.Tenants.SignOut(context.Background(), in.Token); err != nil {
			t.Error(err)
		}
	}
	if _, err := k.Tenants.AuthenticateSignIn(t.Context(), in.Token, true); err != nil || !raced {
		t.Fatalf("raced: %t; %v", raced, err)
	}
	if _, err := k.Tenants.AuthenticateSignIn(t.Context(), in.Token, true); code(t, err) != "sign_in_ended" {
		t.Errorf("after signing out: %v", err)
	}
}

// Ended sign-ins are removed.
func TestSignInsLeaveNothing(t *testing.T) {
	k := enginetest.New(t)
	key := k.MakeKey(tenant.KeySpec{Name: "a"}).Key
	left := func() (n int) {
		for _, it := range k.Everything(ident.DefaultTenant) {
			if records.SignIn.Is(it.Key) || records.SignInLink.Is(it.Key) {
				n++
			}
			if of := records.SplitExpiry(it.Key); of != nil && (records.SignIn.Is(of) || records.SignInLink.Is(of)) {
				n++
			}
		}
		return n
	}
	in, _ := signIn(k, key), link(k, key)
	used, err := k.Tenants.SignInByLink(t.Context(), link(k, key).Link, in.Token)
	if err != nil || left() != 4 { // a sign-in and a link, each with its entry in the expiry index
		t.Fatalf("%d records, %v", left(), err)
	}
	k.Advance(time.Hour)
	if _, err := k.Tenants.AuthenticateSignIn(t.Context(), used.Token, true); err != nil {
		t.Fatal(err)
	}
	if r := k.Verify(); len(r.Findings) > 0 {
		t.Errorf("%+v", r.Findings)
	}
	if err := k.Tenants.SignOut(t.Context(), used.Token); err != nil {
		t.Fatal(err)
	}
	signIn(k, key)
	k.Advance(13 * time.Hour)
	k.Drain()
	if n := left(); n != 0 {
		t.Errorf("%d records are left", n)
	}
	if r := k.Verify(); len(r.Findings) > 0 {
		t.Errorf("%+v", r.Findings)
	}
}

// If two browsers follow one link at the same time, only the one that commits first is signed in.
func TestOneOfTwoFollowsALink(t *testing.T) {
	raw := &meanwhile{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	made := link(k, k.MakeKey(tenant.KeySpec{Name: "a"}).Key)
	raced := false
	raw.happens = func(b store.Batch) {
		if raced || len(b.Put) == 0 || !records.SignIn.Is(b.Put[0].Key) {
			return
		}
		raced = true
		if _, err := k.Tenants.SignInByLink(context.Background(), made.Link, ""); err != nil {
			t.Error(err)
		}
	}
	if _, err := k.Tenants.SignInByLink(t.Context(), made.Link, ""); code(t, err) != "link_ended" || !raced {
		t.Errorf("raced: %t; the second: %v", raced, err)
	}
}
