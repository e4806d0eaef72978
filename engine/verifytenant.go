package engine

import (
	"crypto/sha256"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// tenantChecks are of tenants, which lie in the system space, and of a tenant's mark, keys, audit log and usage.
type tenantChecks struct {
	live     incarnation
	keys     map[string]incarnation // API key -> the tenant that it was made in
	lostKeys bool
	swept    map[string]bool // in the system space: tenants that a job is to sweep, until their records come
}

func newTenantChecks() *tenantChecks {
	return &tenantChecks{keys: map[string]incarnation{}, swept: map[string]bool{}}
}

func (c *tenantChecks) checks() []recordCheck {
	return []recordCheck{
		{kind: "audit", record: expires[AuditEntry]},
		{kind: "usage", record: expires[usage]},
		{kind: "live", record: c.mark},
		{kind: "key", record: c.key},
		{kind: "key_use", record: c.keyUse},
		{kind: "tenant", record: c.tenant},
		{kind: "job_tenant", record: c.job},
	}
}

func (c *tenantChecks) mark(s *space, it store.Item) {
	if s.sized(it, len(c.live), "an incarnation") {
		c.live = incarnation(it.Value)
	}
}

func (c *tenantChecks) key(s *space, it store.Item) {
	var rec keyRecord
	if !s.decode(it, &rec) {
		c.lostKeys = c.lostKeys || it.Damaged
		return
	}
	id := idIn(it.Key, 2)
	if _, ok := ParseRole(rec.Role); !ok || rec.ID != id || len(rec.Hash) != sha256.Size {
		s.malformed("key %q has the id %q, the role %q and a hash of %d bytes", id, rec.ID, rec.Role,
			len(rec.Hash))
	}
	c.keys[id] = rec.Tenant
}

// keyUse may outlive its key, which is removed before it.
func (c *tenantChecks) keyUse(s *space, it store.Item) {
	id := string(it.Key[2:])
	s.sized(it, 8, "a time")
	if _, ok := c.keys[id]; !ok && !c.lostKeys && !it.Damaged {
		s.orphan("it tells when the key %q was used, which is not there", id).harmless = true
	}
}

func (c *tenantChecks) job(_ *space, it store.Item) { c.swept[string(it.Key[3:])] = true }

// tenant lets what is in a tenant's space count as a tenant's even where its record cannot be read.
func (c *tenantChecks) tenant(s *space, it store.Item) {
	id := idIn(it.Key, 2)
	var rec tenantRecord
	if s.decode(it, &rec) {
		if rec.ID != id {
			s.malformed("tenant %q calls itself %q", id, rec.ID)
		}
		if rec.Deleting != c.swept[id] {
			s.mismatch("tenant %q is being deleted: %t; there is a job that does it: %t", id, rec.Deleting,
				c.swept[id])
		}
		s.tenants[id] = rec.Deleting
	} else {
		s.tenants[id] = false
	}
	delete(c.swept, id)
}

func (c *tenantChecks) finish(s *space) {
	for id, made := range c.keys {
		if made != c.live && c.live != (incarnation{}) { // whose loss is told once
			s.at("key", kindKey.Key(id)).mismatch("key %q was made in another tenant of this name", id)
		}
	}
	for id := range c.swept {
		s.at("job_tenant", kindTenantJob.Key(id)).orphan("a tenant %q that is not there is to be swept",
			strings.ToValidUTF8(id, "?"))
	}
	c.keys = nil
}

func (c *tenantChecks) across(s *space, _ roomChecks) {
	if c.live == (incarnation{}) {
		s.at("live", kindLive.Key()).missing("the tenant's mark is not there: no key of it works")
	}
}
