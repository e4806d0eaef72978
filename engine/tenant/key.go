package tenant

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// KeySpec describes an API key to create.
type KeySpec struct {
	Name          string   `json:"name"` // at most 256 bytes; like PreferredName
	Role          string   `json:"role"` // tenant_admin, agent or reader
	Agent         string   `json:"agent,omitempty"`
	PreferredName string   `json:"preferred_name,omitempty"`
	Projects      []string `json:"projects,omitempty"` // that the key reaches; nil means the whole tenant
	// Namespaces are those whose memories and sessions the key reaches, each with those below it; nil means all, and
	// whatever belongs to none.
	Namespaces [][]string `json:"namespaces,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"` // nil means never
}

// check returns an error if the spec is invalid or describes a key that reaches further than the caller's own.
func (s *KeySpec) check(c ident.Caller, now time.Time) error {
	if _, ok := ident.ParseRole(s.Role); !ok {
		return fault.InvalidField("role", "invalid_value", "must be tenant_admin, agent or reader")
	}
	if len(s.Name) > 256 || len(s.PreferredName) > 256 {
		return fault.InvalidField("name", "too_long", "must be at most 256 bytes")
	}
	if s.Agent != "" {
		if err := ident.CheckID("agent", s.Agent); err != nil {
			return err
		}
	}
	if s.Projects != nil && len(s.Projects) == 0 {
		return fault.InvalidField("projects", "invalid_value", "name at least one project, or leave it out for all")
	}
	for _, p := range s.Projects {
		if err := ident.CheckID("projects", p); err != nil {
			return err
		}
	}
	if c.Projects != nil && s.Projects == nil {
		return fault.InvalidField("projects", "required", "your own key is narrowed to projects: name some of them")
	}
	for _, p := range s.Projects {
		if !c.MaySee(p) {
			return fault.Errorf(fault.NotFound, "not_found", "no project %q", p)
		}
	}
	if err := s.checkNamespaces(); err != nil {
		return err
	}
	if s.ExpiresAt != nil && !s.ExpiresAt.After(now) {
		return fault.InvalidField("expires_at", "out_of_range", "must lie in the future")
	}
	return nil
}

// maxKeyNamespaces limits the namespaces that a key is narrowed to.
const maxKeyNamespaces = 16

// checkNamespaces returns an error if the key cannot be narrowed to its namespaces.
func (s *KeySpec) checkNamespaces() error {
	switch {
	case s.Namespaces == nil:
		return nil
	case len(s.Namespaces) == 0:
		return fault.InvalidField("namespaces", "invalid_value", "name at least one namespace, or leave it out for all")
	case len(s.Namespaces) > maxKeyNamespaces:
		return fault.InvalidField("namespaces", "too_many", "must be at most %d", maxKeyNamespaces)
	case s.Role == ident.RoleTenantAdmin.String():
		return fault.InvalidField("namespaces", "invalid_value",
			"a tenant_admin changes what belongs to no namespace: give the key the role agent or reader")
	}
	for i, n := range s.Namespaces {
		field := fmt.Sprintf("namespaces[%d]", i)
		if len(n) == 0 {
			return fault.InvalidField(field, "invalid_value", "must have at least one name")
		}
		if err := ident.CheckNamespace(field, n); err != nil {
			return err
		}
	}
	return nil
}

// Key describes an API key without its secret.
type Key struct {
	ID string `json:"id"`
	KeySpec
	CreatedAt time.Time  `json:"created_at"`
	RotatedAt *time.Time `json:"rotated_at,omitempty"`
	// LastUsedAt is accurate to about a minute; nil until the key is used. It is not stored in the key's own record.
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

// KeyCreated contains a new secret, which is shown only once.
type KeyCreated struct {
	ID  string `json:"id"`
	Key string `json:"key"`
	// PreviousValidUntil is when the secret replaced by a rotation stops working.
	PreviousValidUntil *time.Time `json:"previous_valid_until,omitempty"`
}

// HoldsSecret marks the response as one that must be encrypted if it is stored.
func (KeyCreated) HoldsSecret() {}

// keyPrefix begins every API key. The format is mk_ID_SECRET_TENANT. The id and the tenant are readable, so one read in
// that tenant's space is enough. The tenant is escaped as in URLs, because its id may have any printable characters. Only the SHA-256 of the whole key is stored: the secret has 160 random bits, so no
// slow hash is needed.
const keyPrefix = "mk_"

// rotationOverlap is how long the previous secret keeps working after a rotation, so that clients can change over.
const rotationOverlap = time.Hour

// keyRecord is a stored API key.
type keyRecord struct {
	Key
	Hash []byte `json:"hash"` // SHA-256 of the key that the client sends
	// Tenant is the incarnation of the key's tenant. A later tenant of the same name has another one.
	Tenant ident.Incarnation `json:"tenant"`
	// Previous is the hash before the last rotation, valid until PreviousUntil.
	Previous      []byte     `json:"previous,omitempty"`
	PreviousUntil *time.Time `json:"previous_until,omitempty"`
}

// newToken returns the text of a key, with a new secret, and its hash.
func (svc *Service) newToken(tenant, id string) (token string, hash []byte) {
	token = keyPrefix + id + "_" + svc.db.NewID("", 20) + "_" + url.PathEscape(tenant)
	sum := sha256.Sum256([]byte(token))
	return token, sum[:]
}

// Authenticate returns the caller that a token belongs to. It returns unknown_key if the key is unknown, wrong, expired
// or deleted.
func (svc *Service) Authenticate(ctx context.Context, token string) (ident.Caller, error) {
	sum := sha256.Sum256([]byte(token))
	rest, ok := strings.CutPrefix(token, keyPrefix)
	if svc.isRoot(sum) || !ok {
		return svc.bearer(ctx, "", rootKeyID, sum)
	}
	id, rest, _ := strings.Cut(rest, "_")
	_, escaped, _ := strings.Cut(rest, "_")
	tenant, err := ident.ReadID("key", escaped)
	if err != nil || !ident.ValidID(id) {
		return ident.Caller{}, records.ErrUnknownKey()
	}
	return svc.bearer(ctx, tenant, id, sum)
}

func (svc *Service) isRoot(sum [sha256.Size]byte) bool {
	return svc.hasRoot && subtle.ConstantTimeCompare(sum[:], svc.rootKey[:]) == 1
}

// bearer returns the caller that has the key of a tenant whose secret has the given digest. The operator's key belongs
// to no tenant. It returns unknown_key.
func (svc *Service) bearer(ctx context.Context, tenant, id string, sum [sha256.Size]byte) (ident.Caller, error) {
	if tenant == "" {
		if !svc.isRoot(sum) {
			return ident.Caller{}, records.ErrUnknownKey()
		}
		return ident.Caller{Role: ident.RoleRoot, KeyID: rootKeyID}, nil
	}
	rec, err := svc.keys.Get(ctx, svc.db, tenant, ident.Join(tenant, id), records.APIKey.Key(id))
	if err != nil {
		return ident.Caller{}, err
	}
	if rec == nil {
		return ident.Caller{}, records.ErrUnknownKey()
	}
	now := svc.db.Now()
	match := subtle.ConstantTimeCompare(sum[:], rec.Hash) == 1
	if rec.PreviousUntil != nil && now.Before(*rec.PreviousUntil) {
		match = match || subtle.ConstantTimeCompare(sum[:], rec.Previous) == 1
	}
	if !match || rec.ExpiresAt != nil && !now.Before(*rec.ExpiresAt) {
		return ident.Caller{}, records.ErrUnknownKey()
	}
	svc.noteUse(ctx, tenant, id, now)
	role, _ := ident.ParseRole(rec.Role)
	return ident.Caller{Tenant: tenant, Incarnation: rec.Tenant, KeyID: id, Name: rec.Name, Role: role,
		Projects: rec.Projects, Namespaces: rec.Namespaces, Agent: rec.Agent, PreferredName: rec.PreferredName}, nil
}

// IsKey reports whether a text looks like one of Mneme's keys, or is the operator's key.
func (svc *Service) IsKey(text string) bool {
	if strings.HasPrefix(text, keyPrefix) {
		return true
	}
	sum := sha256.Sum256([]byte(text))
	return svc.hasRoot && subtle.ConstantTimeCompare(sum[:], svc.rootKey[:]) == 1
}

// keyPattern finds a key within a longer text. The id has 16 letters and the secret 32.
var keyPattern = regexp.MustCompile(keyPrefix + `[0-9a-z]{16}_[0-9a-z]{32}_`)

// HoldsKey reports whether a text contains what may be one of Mneme's keys, or the operator's key.
func (svc *Service) HoldsKey(text string) bool {
	return svc.IsKey(text) || keyPattern.MatchString(text) ||
		svc.hasRoot && slices.ContainsFunc(strings.FieldsFunc(text, separates), svc.IsKey)
}

// separates reports whether a character separates values.
func separates(r rune) bool { return strings.ContainsRune(" ,;=&", r) }

// CreateKey creates a key. Only the response contains its secret. It returns invalid_value, too_long, invalid_id,
// required or out_of_range if the spec is invalid, and not_found if it names a project that the caller's own key does
// not reach.
func (svc *Service) CreateKey(ctx context.Context, c ident.Caller, once ident.Once, spec KeySpec) (KeyCreated,
	error) {
	if err := spec.check(c, svc.db.Now()); err != nil {
		return KeyCreated{}, err
	}
	if spec.ExpiresAt != nil {
		at := spec.ExpiresAt.UTC()
		spec.ExpiresAt = &at
	}
	return records.Update(ctx, svc.db, c, once, func(t *records.Tx) (KeyCreated, error) {
		id := svc.db.NewID("", 10)
		token, hash := svc.newToken(c.Tenant, id)
		rec := keyRecord{Key: Key{ID: id, KeySpec: spec, CreatedAt: t.Now}, Hash: hash, Tenant: t.Live}
		return KeyCreated{ID: id, Key: token}, t.PutJSON(records.APIKey.Key(id), rec)
	})
}

// RotateKey gives a key a new secret. The previous one works for another hour; a second rotation ends it at once. It
// returns not_found if there is no such key, or if it reaches further than the caller's own.
func (svc *Service) RotateKey(ctx context.Context, c ident.Caller, once ident.Once, id string) (KeyCreated, error) {
	return records.Update(ctx, svc.db, c, once, func(t *records.Tx) (KeyCreated, error) {
		rec, err := readKey(t, c, id)
		if err != nil {
			return KeyCreated{}, err
		}
		token, hash := svc.newToken(c.Tenant, id)
		until := t.Now.Add(rotationOverlap)
		rec.Previous, rec.PreviousUntil, rec.Hash, rec.RotatedAt = rec.Hash, &until, hash, &t.Now
		return KeyCreated{ID: id, Key: token, PreviousValidUntil: &until}, t.PutJSON(records.APIKey.Key(id), rec)
	})
}

// DeleteKey deletes a key, which stops working at once. It returns not_found like RotateKey.
func (svc *Service) DeleteKey(ctx context.Context, c ident.Caller, id string) error {
	_, err := records.Update(ctx, svc.db, c, ident.Once{}, func(t *records.Tx) (struct{}, error) {
		_, err := readKey(t, c, id)
		if errors.Is(err, records.ErrDamaged) && c.Projects == nil {
			err = nil // a damaged key gives no access, and may be removed without knowing what it reached
		}
		t.Delete(records.APIKey.Key(id))
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	return svc.db.Commit(ctx, c.Tenant, store.Batch{Delete: [][]byte{records.KeyUse.Key(id)}})
}

// readKey reads a key in order to change it. A key that reaches further than the caller's own is not found, because its
// secret would extend what the caller can reach.
func readKey(t *records.Tx, c ident.Caller, id string) (*keyRecord, error) {
	if !ident.ValidID(id) {
		return nil, fault.Errorf(fault.NotFound, "not_found", "no such key")
	}
	rec, err := records.GetTx[keyRecord](t, records.APIKey.Key(id))
	if err != nil {
		return nil, err
	}
	if rec == nil || !c.Covers(rec.Projects) {
		return nil, fault.Errorf(fault.NotFound, "not_found", "no key %q", id)
	}
	return rec, nil
}

// ListKeys pages by id through the tenant's keys that reach no further than the caller's own, without secrets.
func (svc *Service) ListKeys(ctx context.Context, c ident.Caller, page records.Page) (records.List[Key], error) {
	out, err := records.ListPage(ctx, svc.db, c.Tenant, records.APIKey.All(), page,
		func(_ []byte, rec *keyRecord) (Key, bool) { return rec.Key, c.Covers(rec.Projects) })
	if err != nil {
		return out, err
	}
	return out, svc.fillUses(ctx, c.Tenant, out.Data)
}
