package tenant

import (
	"crypto/sha256"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// checks are of tenants, which lie in the system space, and of a tenant's mark, keys, audit log and usage.
type checks struct {
	live     ident.Incarnation
	keys     map[string]ident.Incarnation // API key -> the tenant that it was made in
	lostKeys bool
	swept    map[string]bool // in the system space: tenants that a job is to sweep, until their records come
}

func NewChecks() *checks {
	return &checks{keys: map[string]ident.Incarnation{}, swept: map[string]bool{}}
}

func (c *checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.Audit, Record: verify.Expires[AuditEntry]},
		{Kind: records.Usage, Record: verify.Expires[UsageRecord]},
		{Kind: records.Live, Record: c.mark},
		{Kind: records.APIKey, Record: c.key},
		{Kind: records.KeyUse, Record: c.keyUse},
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
	id := verify.IdIn(it.Key, 2)
	if _, ok := access.ParseRole(rec.Role); !ok || rec.ID != id || len(rec.Hash) != sha256.Size {
		s.Malformed("key %q has the id %q, the role %q and a hash of %d bytes", id, rec.ID, rec.Role,
			len(rec.Hash))
	}
	c.keys[id] = rec.Tenant
}

// keyUse may outlive its key, which is removed before it.
func (c *checks) keyUse(s *verify.Space, it store.Item) {
	id := string(it.Key[2:])
	s.Sized(it, 8, "a time")
	if _, ok := c.keys[id]; !ok && !c.lostKeys && !it.Damaged {
		s.Orphan("it tells when the key %q was used, which is not there", id).Harmless = true
	}
}

func (c *checks) job(_ *verify.Space, it store.Item) { c.swept[string(it.Key[3:])] = true }

// tenant lets what is in a tenant's space count as a tenant's even where its record cannot be read.
func (c *checks) tenant(s *verify.Space, it store.Item) {
	id := verify.IdIn(it.Key, 2)
	var rec tenantRecord
	if s.Decode(it, &rec) {
		if rec.ID != id {
			s.Malformed("tenant %q calls itself %q", id, rec.ID)
		}
		if rec.Deleting != c.swept[id] {
			s.Mismatch("tenant %q is being deleted: %t; there is a job that does it: %t", id, rec.Deleting,
				c.swept[id])
		}
		s.Tenants[id] = rec.Deleting
	} else {
		s.Tenants[id] = false
	}
	delete(c.swept, id)
}

func (c *checks) Finish(s *verify.Space) {
	for id, made := range c.keys {
		if made != c.live && c.live != (ident.Incarnation{}) { // whose loss is told once
			s.At(records.APIKey, records.APIKey.Key(id)).Mismatch("key %q was made in another tenant of this name", id)
		}
	}
	for id := range c.swept {
		s.At(records.TenantJob, records.TenantJob.Key(id)).Orphan("a tenant %q that is not there is to be swept",
			strings.ToValidUTF8(id, "?"))
	}
	c.keys = nil
}

func (c *checks) Across(s *verify.Space, _ verify.Room) {
	if c.live == (ident.Incarnation{}) {
		s.At(records.Live, records.Live.Key()).Missing("the tenant's mark is not there: no key of it works")
	}
}
