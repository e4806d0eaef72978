package tenant

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A person signs in to the console with an API key, or with a link that somebody who has the key asked for. The browser
// then holds a token of its own and never the key. The token may do what the key may, and ends with it.
const (
	signInLife = 12 * time.Hour
	// signInIdle is how long a browser may send nothing. Its last use is written once a useFlush, so that it may end
	// that much earlier.
	signInIdle = 2 * time.Hour
	linkLife   = time.Minute
)

// signInPrefix begins the token of a signed-in browser, linkPrefix that of a link. Both read PREFIX, secret, _, TENANT,
// and the root key's name no tenant. The secret has 256 random bits, and the SHA-256 of the whole is stored.
const (
	signInPrefix = "ms_"
	linkPrefix   = "ml_"
)

// rootKeyID stands for the operator's key, which has no record.
const rootKeyID = "root"

// signIn is a stored sign-in.
type signIn struct {
	grant
	UsedAt time.Time `json:"used_at"` // to a useFlush
}

// grant says by which key a browser may sign in or has signed in, and until when. It is what is stored of a link.
type grant struct {
	Key       string    `json:"key"`
	Hash      []byte    `json:"hash"` // of the key's secret that was used: the grant ends when that secret does
	ExpiresAt time.Time `json:"expires_at"`
}

// SignedIn answers a sign-in. Token is for the browser's cookie.
type SignedIn struct {
	Tenant    string    `json:"tenant,omitempty"` // empty: the operator, who belongs to none
	Role      string    `json:"role"`
	KeyID     string    `json:"key_id"`
	ExpiresAt time.Time `json:"expires_at"` // earlier where nothing is done in the console

	Token  string       `json:"-"`
	Caller ident.Caller `json:"-"`
}

// SignInLink signs one browser in, once.
type SignInLink struct {
	Link      string    `json:"link"`
	ExpiresAt time.Time `json:"expires_at"`
}

// spaceOf is the space that a token's record lies in.
func spaceOf(tenant string) string {
	if tenant == "" {
		return records.SystemTenant
	}
	return tenant
}

// digest takes a token of that prefix apart. ok is false where no such token is given out.
func digest(prefix, token string) (tenant string, sum [32]byte, ok bool) {
	rest, ok := strings.CutPrefix(token, prefix)
	_, tenant, found := strings.Cut(rest, "_")
	return tenant, sha256.Sum256([]byte(token)), ok && found && (tenant == "" || ident.ValidID(tenant))
}

// newGrantToken makes a token with a new secret in it.
func (svc *Service) newGrantToken(prefix, tenant string) (token string, sum [32]byte) {
	token = prefix + svc.db.NewID("", 32) + "_" + tenant
	return token, sha256.Sum256([]byte(token))
}

// in is the caller as one who changes the space of the key.
func in(c ident.Caller) ident.Caller {
	c.Tenant = spaceOf(c.Tenant)
	return c
}

// MakeSignInLink makes a link that signs one browser in with the key, once and within a minute. It answers unknown_key.
func (svc *Service) MakeSignInLink(ctx context.Context, key string) (SignInLink, error) {
	c, err := svc.Authenticate(ctx, key)
	if err != nil {
		return SignInLink{}, err
	}
	hash := sha256.Sum256([]byte(key))
	return records.Update(ctx, svc.db, in(c), ident.Once{}, func(t *records.Tx) (SignInLink, error) {
		token, sum := svc.newGrantToken(linkPrefix, c.Tenant)
		g := grant{Key: c.KeyID, Hash: hash[:], ExpiresAt: t.Now.Add(linkLife)}
		out := SignInLink{Link: token, ExpiresAt: g.ExpiresAt}
		t.Put(records.Expiry.Key(g.ExpiresAt, records.SignInLink.Key(sum)), []byte{0})
		return out, t.PutJSON(records.SignInLink.Key(sum), g)
	})
}

// SignIn signs a browser in with a key. The sign-in that the browser had before ends; it may be empty or unknown. SignIn
// answers unknown_key.
func (svc *Service) SignIn(ctx context.Context, key, before string) (SignedIn, error) {
	c, err := svc.Authenticate(ctx, key)
	if err != nil {
		return SignedIn{}, err
	}
	hash := sha256.Sum256([]byte(key))
	out, err := records.Update(ctx, svc.db, in(c), ident.Once{}, func(t *records.Tx) (SignedIn, error) {
		return svc.signIn(t, c, grant{Key: c.KeyID, Hash: hash[:]})
	})
	if err != nil {
		return SignedIn{}, err
	}
	return out, svc.SignOut(ctx, before)
}

// SignInByLink is SignIn with a link, which is used up. It answers link_ended.
func (svc *Service) SignInByLink(ctx context.Context, link, before string) (SignedIn, error) {
	tenant, sum, ok := digest(linkPrefix, link)
	if !ok {
		return SignedIn{}, errLinkEnded()
	}
	key := records.SignInLink.Key(sum)
	g, err := records.Get[grant](ctx, svc.db, spaceOf(tenant), key)
	if err != nil {
		return SignedIn{}, err
	}
	if g == nil || !svc.db.Now().Before(g.ExpiresAt) {
		return SignedIn{}, errLinkEnded()
	}
	c, err := svc.bearer(ctx, tenant, g.Key, [32]byte(g.Hash))
	if err != nil {
		return SignedIn{}, errLinkEnded()
	}
	out, err := records.Update(ctx, svc.db, in(c), ident.Once{}, func(t *records.Tx) (SignedIn, error) {
		again, err := records.GetTx[grant](t, key) // of several requests with one link, one commits
		if err != nil {
			return SignedIn{}, err
		}
		if again == nil {
			return SignedIn{}, errLinkEnded()
		}
		t.Delete(key)
		t.Delete(records.Expiry.Key(g.ExpiresAt, key))
		return svc.signIn(t, c, *g)
	})
	if err != nil {
		return SignedIn{}, err
	}
	return out, svc.SignOut(ctx, before)
}

func errLinkEnded() error {
	return fault.Errorf(fault.Unauthorized, "link_ended", "the link is unknown, older than %d seconds or was used: "+
		"`mneme console` prints another one", int(linkLife.Seconds()))
}

// signIn adds a sign-in to a change.
func (svc *Service) signIn(t *records.Tx, c ident.Caller, g grant) (SignedIn, error) {
	token, sum := svc.newGrantToken(signInPrefix, c.Tenant)
	g.ExpiresAt = t.Now.Add(signInLife)
	key := records.SignIn.Key(sum)
	if err := t.PutJSON(key, signIn{grant: g, UsedAt: t.Now}); err != nil {
		return SignedIn{}, err
	}
	t.Put(records.Expiry.Key(g.ExpiresAt, key), []byte{0})
	out := SignedIn{Tenant: c.Tenant, Role: c.Role.String(), KeyID: c.KeyID, ExpiresAt: g.ExpiresAt, Token: token,
		Caller: c}
	if c.Role == ident.RoleRoot { // the system space has no audit log
		return out, nil
	}
	return out, Audit(t, c, "console.sign_in", c.KeyID, "")
}

// SignOut ends a sign-in. One that is unknown has ended already.
func (svc *Service) SignOut(ctx context.Context, token string) error {
	tenant, sum, ok := digest(signInPrefix, token)
	if !ok {
		return nil
	}
	space, key := spaceOf(tenant), records.SignIn.Key(sum)
	rec, err := records.Get[signIn](ctx, svc.db, space, key)
	if rec == nil || err != nil {
		return err
	}
	return svc.db.Commit(ctx, space, store.Batch{Delete: [][]byte{key, records.Expiry.Key(rec.ExpiresAt, key)}})
}

// AuthenticateSignIn tells who is signed in. A use keeps the sign-in from ending for signInIdle; without one, as where a
// stream only goes on, it is looked at alone. It answers sign_in_ended.
func (svc *Service) AuthenticateSignIn(ctx context.Context, token string, use bool) (ident.Caller, error) {
	tenant, sum, ok := digest(signInPrefix, token)
	if !ok {
		return ident.Caller{}, errSignInEnded()
	}
	space, key := spaceOf(tenant), records.SignIn.Key(sum)
	it, err := svc.db.ReadItem(ctx, space, key)
	if err != nil {
		return ident.Caller{}, err
	}
	var rec signIn
	if it.Value == nil || json.Unmarshal(it.Value, &rec) != nil || len(rec.Hash) != sha256.Size {
		return ident.Caller{}, errSignInEnded()
	}
	now := svc.db.Now()
	if !now.Before(rec.ExpiresAt) || now.Sub(rec.UsedAt) >= signInIdle {
		return ident.Caller{}, errSignInEnded()
	}
	c, err := svc.bearer(ctx, tenant, rec.Key, [32]byte(rec.Hash))
	if refused, ok := errors.AsType[*fault.Error](err); ok && refused.Kind == fault.Unauthorized {
		err = errSignInEnded()
	}
	if err != nil || !use || now.Sub(rec.UsedAt) < useFlush {
		return c, err
	}
	rec.UsedAt = now
	value, err := json.Marshal(rec)
	if err != nil {
		return c, err
	}
	// The record is expected as it was, so that a use never brings back what was signed out meanwhile.
	err = svc.db.Commit(ctx, space, store.Batch{Expect: []store.Expect{{Key: key, Value: bytes.Clone(it.Value)}},
		Put: []store.Pair{{Key: key, Value: value}}})
	if records.LostRace(err) != nil {
		svc.db.Log.Warn("the use of a sign-in was not written", "tenant", tenant, "key", rec.Key, "error", err)
	}
	return c, nil
}

func errSignInEnded() error {
	return fault.Errorf(fault.Unauthorized, "sign_in_ended",
		"the sign-in is unknown, was idle for %d hours or has ended with its key: sign in again", int(signInIdle.Hours()))
}
