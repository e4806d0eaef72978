package tenant

import (
	"crypto/sha256"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// checks verifies tenants, which are in the system space, and a tenant's mark, keys, audit log and usage.
type checks struct {
	live     ident.Incarnation            // the tenant's mark
	keys     map[string]ident.Incarnation // API key -> the tenant that it was made in
	lostKeys bool                         // a key is damaged
	swept    map[string]bool              // in the system space: tenants to sweep whose records were not found yet
}

// NewChecks returns the checks for one tenant, or for the system space.
func NewChecks() verify.Checker {
	return &checks{keys: map[string]ident.Incarnation{}, swept: map[string]bool{}}
}

// Checks lists the kinds of records that are checked here.
func (c *checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.Audit, Record: verify.Expires[storedAuditEntry]},
		{Kind: records.Usage, Record: verify.Expires[UsageRecord]},
		{Kind: records.Live, Record: c.mark},
		{Kind: records.APIKey, Record: c.key},
		{Kind: records.KeyUse, Record: c.keyUse},
		{Kind: records.SignIn, Record: verify.Expires[signIn]},
		{Kind: records.SignInLink, Record: verify.Expires[grant]},
		{Kind: records.Tenant, Record: c.tenant},
		{Kind: records.TenantJob, Record: c.job},
	}
}

func (c *checks) mark(s *verify.Space, it store.Item) {
	if s.Sized(it, len(c.live), "an incarnation") {
		c.live = ident.Incarnation(it.Value)
	}
}

func (c *checks) key(s *verify.Space, it store.Item) {
	var rec keyRecord
	if !s.Decode(it, &rec) {
		c.lostKeys = c.lostKeys || it.Damaged
		return
	}
	id, _ := records.APIKey.Split(it.Key)
	if _, ok := ident.ParseRole(rec.Role); !ok || rec.ID != id || len(rec.Hash) != sha256.Size {
		s.Malformed("key %q has the id %q, the role %q and a hash of %d bytes", id, rec.ID, rec.Role, len(rec.Hash))
	}
	if err := rec.checkNamespaces(); err != nil {
		s.Malformed("key %q is narrowed to what no key can be: %v", id, err)
	}
	c.keys[id] = rec.Tenant
}

// keyUse checks the last use of a key. It may outlive the key, which is removed first.
func (c *checks) keyUse(s *verify.Space, it store.Item) {
	id, _ := records.KeyUse.Split(it.Key)
	s.Sized(it, 8, "a time")
	if _, ok := c.keys[id]; !ok && !c.lostKeys && !it.Damaged {
		s.Orphan("it says when the key %q was used, but there is no such key", id).Harmless = true
	}
}

func (c *checks) job(_ *verify.Space, it store.Item) {
	id, _ := records.TenantJob.Split(it.Key)
	c.swept[id] = true
}

// tenant notes a tenant even if its record cannot be read: otherwise its space would seem to belong to nobody.
func (c *checks) tenant(s *verify.Space, it store.Item) {
	id, _ := records.Tenant.Split(it.Key)
	var rec record
	if s.Decode(it, &rec) {
		if rec.ID != id {
			s.Malformed("tenant %q calls itself %q", id, rec.ID)
		}
		if rec.Deleting != c.swept[id] {
			s.Mismatch("tenant %q is being deleted: %t; there is a job that does it: %t", id, rec.Deleting, c.swept[id])
		}
		s.Tenants[id] = rec.Deleting
	} else {
		s.Tenants[id] = false
	}
	delete(c.swept, id)
}

// Finish compares keys with the mark, and jobs with tenants.
func (c *checks) Finish(s *verify.Space) {
	for id, made := range c.keys {
		if made != c.live && c.live != (ident.Incarnation{}) { // Across reports a lost mark
			s.At(records.APIKey, records.APIKey.Key(id)).Mismatch("key %q was made in another tenant of this name", id)
		}
	}
	for id := range c.swept {
		s.At(records.TenantJob, records.TenantJob.Key(id)).Orphan("a tenant %q that is not there is to be swept",
			strings.ToValidUTF8(id, "?"))
	}
	c.keys = nil
}

// Across finds tenants without a mark.
func (c *checks) Across(s *verify.Space, _ verify.Checker) {
	if c.live == (ident.Incarnation{}) {
		s.At(records.Live, records.Live.Key()).Missing("the tenant's mark is not there: no key of it works")
	}
}
