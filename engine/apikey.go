package engine

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
	"time"
)

// An API key reads mk_ID_SECRET_TENANT: the tenant it belongs to and its id are in clear, so that one read in that
// tenant's own space decides. Only the SHA-256 of ID_SECRET_TENANT is stored; the secret has 160 random bits, which
// needs no slow hash.
const keyPrefix = "mk_"

// rotationOverlap is how long the secret before a rotation goes on working, so that clients can change over.
const rotationOverlap = time.Hour

// keyRecord is a stored API key.
type keyRecord struct {
	Key
	Hash []byte `json:"hash"`
	// Tenant is the incarnation of the tenant that the key belongs to: a later tenant of the same name is another.
	Tenant incarnation `json:"tenant"`
	// Previous is the hash before the last rotation, good until PreviousUntil.
	Previous      []byte     `json:"previous,omitempty"`
	PreviousUntil *time.Time `json:"previous_until,omitempty"`
}

func (e *Engine) newSecret(tenant, id string) (token string, hash []byte) {
	token = keyPrefix + id + "_" + e.newID("", 20) + "_" + tenant
	sum := sha256.Sum256([]byte(token))
	return token, sum[:]
}

// HoldsSecret keeps the key out of stored answers, which are sealed.
func (KeyCreated) HoldsSecret() {}

// Authenticate tells who bears a token. Its errors do not tell an unknown key from a wrong one.
func (e *Engine) Authenticate(ctx context.Context, token string) (Caller, error) {
	sum := sha256.Sum256([]byte(token))
	if e.hasRoot && subtle.ConstantTimeCompare(sum[:], e.rootKey[:]) == 1 {
		return Caller{Role: RoleRoot, KeyID: "root"}, nil
	}
	rest, ok := strings.CutPrefix(token, keyPrefix)
	if !ok {
		return Caller{}, errUnknownKey()
	}
	id, rest, _ := strings.Cut(rest, "_")
	_, tenant, _ := strings.Cut(rest, "_")
	if !validID(id) || !validID(tenant) {
		return Caller{}, errUnknownKey()
	}
	rec, err := e.keys.get(ctx, e, tenant, tenant+"/"+id, kindKey.Key(id))
	if err != nil {
		return Caller{}, err
	}
	if rec == nil {
		return Caller{}, errUnknownKey()
	}
	now := e.now()
	match := subtle.ConstantTimeCompare(sum[:], rec.Hash) == 1
	if rec.PreviousUntil != nil && now.Before(*rec.PreviousUntil) {
		match = match || subtle.ConstantTimeCompare(sum[:], rec.Previous) == 1
	}
	if !match || rec.ExpiresAt != nil && !now.Before(*rec.ExpiresAt) {
		return Caller{}, errUnknownKey()
	}
	e.noteUse(ctx, tenant, id, now)
	role, _ := ParseRole(rec.Role)
	return Caller{Tenant: tenant, incarnation: rec.Tenant, KeyID: id, Name: rec.Name, Role: role, Projects: rec.Projects,
		Agent: rec.Agent, PreferredName: rec.PreferredName}, nil
}

// CreateKey makes a key; its secret is in the answer and nowhere else.
func (e *Engine) CreateKey(ctx context.Context, c Caller, once Once, spec KeySpec) (KeyCreated, error) {
	if _, ok := ParseRole(spec.Role); !ok {
		return KeyCreated{}, invalidField("role", "invalid_value", "must be tenant_admin, agent or reader")
	}
	if len(spec.Name) > 256 || len(spec.PreferredName) > 256 {
		return KeyCreated{}, invalidField("name", "too_long", "must be at most 256 bytes")
	}
	if spec.Agent != "" {
		if err := checkID("agent", spec.Agent); err != nil {
			return KeyCreated{}, err
		}
	}
	if spec.Projects != nil && len(spec.Projects) == 0 {
		return KeyCreated{}, invalidField("projects", "invalid_value", "name at least one project, or leave it out for all")
	}
	for _, p := range spec.Projects {
		if err := checkID("projects", p); err != nil {
			return KeyCreated{}, err
		}
	}
	if c.Projects != nil && spec.Projects == nil {
		return KeyCreated{}, invalidField("projects", "required", "your own key is narrowed to projects: name some of them")
	}
	for _, p := range spec.Projects {
		if !c.MaySee(p) {
			return KeyCreated{}, errorf(NotFound, "not_found", "no project %q", p)
		}
	}
	if spec.ExpiresAt != nil && !spec.ExpiresAt.After(e.now()) {
		return KeyCreated{}, invalidField("expires_at", "out_of_range", "must lie in the future")
	}
	if spec.ExpiresAt != nil {
		at := spec.ExpiresAt.UTC()
		spec.ExpiresAt = &at
	}
	return update(ctx, e, c, once, func(t *tx) (KeyCreated, error) {
		id := e.newID("", 10)
		token, hash := e.newSecret(c.Tenant, id)
		rec := keyRecord{Key: Key{ID: id, KeySpec: spec, CreatedAt: t.now}, Hash: hash, Tenant: t.live}
		return KeyCreated{ID: id, Key: token}, t.putJSON(kindKey.Key(id), rec)
	})
}

// RotateKey gives a key a new secret. The one before works for rotationOverlap more; a second rotation ends it.
func (e *Engine) RotateKey(ctx context.Context, c Caller, once Once, id string) (KeyCreated, error) {
	return update(ctx, e, c, once, func(t *tx) (KeyCreated, error) {
		rec, err := t.readKey(c, id)
		if err != nil {
			return KeyCreated{}, err
		}
		token, hash := e.newSecret(c.Tenant, id)
		until := t.now.Add(rotationOverlap)
		rec.Previous, rec.PreviousUntil, rec.Hash, rec.RotatedAt = rec.Hash, &until, hash, &t.now
		return KeyCreated{ID: id, Key: token, PreviousValidUntil: &until}, t.putJSON(kindKey.Key(id), rec)
	})
}

// DeleteKey ends a key at once.
func (e *Engine) DeleteKey(ctx context.Context, c Caller, id string) error {
	_, err := update(ctx, e, c, Once{}, func(t *tx) (struct{}, error) {
		_, err := t.readKey(c, id)
		if errors.Is(err, errDamaged) && c.Projects == nil { // it opens nothing, and nobody else could remove it
			err = nil
		}
		t.delete(kindKey.Key(id))
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	return e.dropUse(ctx, c.Tenant, id)
}

// readKey reads a key that reaches no further than the caller's own: a wider one would widen it.
func (t *tx) readKey(c Caller, id string) (*keyRecord, error) {
	if !validID(id) {
		return nil, errorf(NotFound, "not_found", "no such key")
	}
	rec, err := getTx[keyRecord](t, kindKey.Key(id))
	if err != nil {
		return nil, err
	}
	if rec == nil || !c.covers(rec.Projects) {
		return nil, errorf(NotFound, "not_found", "no key %q", id)
	}
	return rec, nil
}

// ListKeys pages, by id and without secrets, through the tenant's keys that reach no further than the caller's own.
func (e *Engine) ListKeys(ctx context.Context, c Caller, page Page) (List[Key], error) {
	out, err := listPage(ctx, e, c.Tenant, kindKey.All(), page, func(_ []byte, rec *keyRecord) (Key, bool) {
		return rec.Key, c.covers(rec.Projects)
	})
	if err != nil {
		return out, err
	}
	return out, e.fillUses(ctx, c.Tenant, out.Data)
}
