package tenant

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// A person signs in to the console with an API key, or with a link that was made with the key. The browser then holds
// its own token and never the key. The token may do what the key may, and expires with it.
const (
	signInLife = 12 * time.Hour
	// signInIdle is how long a sign-in lasts without requests. The last use is recorded once per useFlush, so a sign-in
	// may end that much earlier.
	signInIdle = 2 * time.Hour
	linkLife   = time.Minute
)

// signInPrefix begins the token of a signed-in browser, linkPrefix that of a link. The format of both is PREFIX,
// secret, _, TENANT; the root key's tokens have no tenant. The secret has 256 random bits, and the SHA-256 of the whole
// is stored.
const (
	signInPrefix = "ms_"
	linkPrefix   = "ml_"
)

// rootKeyID stands for the operator's key, which has no record.
const rootKeyID = "root"

// signIn is a stored sign-in.
type signIn struct {
	grant
	UsedAt time.Time `json:"used_at"` // accurate to useFlush
}

// grant says with which key a browser may sign in or has signed in, and until when. It is the stored form of a link.
type grant struct {
	Key       string    `json:"key"`
	Hash      []byte    `json:"hash"` // of the key's secret that was used: the grant ends when that secret does
	ExpiresAt time.Time `json:"expires_at"`
}

// SignedIn is the result of a sign-in. Token is for the browser's cookie.
type SignedIn struct {
	Tenant    string    `json:"tenant,omitempty"` // empty for the operator, who has no tenant
	Role      string    `json:"role"`
	KeyID     string    `json:"key_id"`
	ExpiresAt time.Time `json:"expires_at"` // earlier if the console is not used

	Token  string       `json:"-"`
	Caller ident.Caller `json:"-"`
}

// SignInLink signs in one browser, once.
type SignInLink struct {
	Link      string    `json:"link"`
	ExpiresAt time.Time `json:"expires_at"`
}

// spaceOf returns the space in which a token's record is stored.
func spaceOf(tenant string) string {
	if tenant == "" {
		return records.SystemTenant
	}
	return tenant
}

// digest parses a token with the given prefix. ok is false if the token is malformed.
func digest(prefix, token string) (tenant string, sum [32]byte, ok bool) {
	rest, ok := strings.CutPrefix(token, prefix)
	_, escaped, found := strings.Cut(rest, "_")
	if escaped != "" {
		var err error
		tenant, err = ident.ReadID("tenant", escaped)
		found = found && err == nil
	}
	return tenant, sha256.Sum256([]byte(token)), ok && found
}

// newGrantToken returns a token with a new secret.
func (svc *Service) newGrantToken(prefix, tenant string) (token string, sum [32]byte) {
	token = prefix + svc.db.NewID("", 32) + "_" + url.PathEscape(tenant)
	return token, sha256.Sum256([]byte(token))
}

// in returns the caller with the space of its key as the tenant.
func in(c ident.Caller) ident.Caller {
	c.Tenant = spaceOf(c.Tenant)
	return c
}

// MakeSignInLink returns a link that signs in one browser with the key, once and within a minute. It returns
// unknown_key.
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

// SignIn signs in a browser with a key. It ends the browser's previous sign-in, whose token before may be empty or
// unknown. It returns unknown_key.
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

// SignInByLink is SignIn with a link, which can be used once. It returns link_ended.
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

// signIn adds a sign-in to a transaction.
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

// SignOut ends a sign-in. It does nothing if the sign-in is unknown.
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

// AuthenticateSignIn returns the caller who is signed in. With use, it also extends the sign-in by signInIdle; a stream
// that merely continues does not. It returns sign_in_ended.
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
	// The record is expected unchanged, so that a use never restores a sign-in that was ended in the meantime.
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
