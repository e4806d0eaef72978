package engine

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
)

// decode is json.Unmarshal with a finding in place of an error.
func (s *space) decode(key, value []byte, into any) bool {
	if err := json.Unmarshal(value, into); err != nil {
		s.bad(key, foundMalformed, "it does not decode: %v", err)
		return false
	}
	return true
}

// incarnationIn reads the one that a value is, or notes that it is none.
func (s *space) incarnationIn(key, value []byte) (i incarnation) {
	if len(value) != len(i) {
		s.bad(key, foundMalformed, "it holds %d bytes, not the %d of an incarnation", len(value), len(i))
		return i
	}
	return incarnation(value)
}

func (s *space) liveMark(key, value []byte) { s.live = s.incarnationIn(key, value) }

func (s *space) apiKey(key, value []byte) {
	var rec keyRecord
	if !s.decode(key, value, &rec) {
		return
	}
	if _, ok := ParseRole(rec.Role); !ok || rec.ID != idIn(key, 2) || len(rec.Hash) != sha256.Size {
		s.bad(key, foundMalformed, "key %q has the id %q, the role %q and a hash of %d bytes", idIn(key, 2), rec.ID, rec.Role,
			len(rec.Hash))
	}
	s.keys[idIn(key, 2)] = rec.Tenant
}

func (s *space) project(key, value []byte) {
	var rec project
	if !s.decode(key, value, &rec) {
		return
	}
	id := idIn(key, 2)
	if rec.ID != id || rec.Incarnation == (incarnation{}) {
		s.bad(key, foundMalformed, "project %q calls itself %q, incarnation %s", id, rec.ID, rec.Incarnation)
	}
	if other, ok := s.projects[rec.Incarnation]; ok {
		s.bad(key, foundMismatch, "projects %q and %q have one incarnation", id, other)
	}
	s.projects[rec.Incarnation], s.searched[rec.Incarnation] = id, rec.Recalls
	if s.sweptProjects[rec.Incarnation] {
		s.bad(key, foundMismatch, "project %q lives and is to be swept", id)
	}
	var set struct {
		Pipeline []PipelineStep `json:"pipeline"`
	}
	if len(rec.Set) > 0 && s.decode(key, rec.Set, &set) {
		for _, entry := range set.Pipeline {
			s.named = append(s.named, namedPolicy{project: id, ref: entry.Policy})
		}
	}
}

// damagedProject leaves it open which sessions belong to the project.
func (s *space) damagedProject([]byte) { s.lostProjects++ }

// once is the answer to an idempotent request.
func (s *space) once(key, value []byte) {
	var rec onceRecord
	s.decode(key, value, &rec)
	s.expires(key)
}

func (s *space) auditEntry(key, value []byte) {
	var rec AuditEntry
	s.decode(key, value, &rec)
	s.expires(key)
}

// expires notes a record that has an entry in the expiry index for as long as it is there.
func (s *space) expires(key []byte) { s.expiring[string(key)] = s.kind }

func (s *space) expiry(key, value []byte) {
	if len(value) != 1 {
		s.bad(key, foundMalformed, "an expiry entry holds %d bytes", len(value))
	}
	s.damagedExpiry(key)
}

// damagedExpiry holds an entry's key against the records that expire: its value says nothing.
func (s *space) damagedExpiry(key []byte) {
	names := string(splitExpiry(key))
	if names[0] == 'e' {
		s.memoryExpiry(key)
		return
	}
	if _, ok := s.expiring[names]; ok {
		delete(s.expiring, names)
	} else if strings.ContainsAny(names[:1], "iauf") { // what else expires may go before its time
		s.bad(key, foundMissing, "the expiry index names the record %x, which is not there", names)
	}
}

func (s *space) sessionJob(key, value []byte) {
	s.incarnationIn(key, value)
	s.damagedSessionJob(key)
}

// What a job is about stands in its key.
func (s *space) damagedSessionJob(key []byte) { s.sweptSessions[incarnation(key[3:])] = true }

// importProgress is an import of a tenant's file that is not finished.
func (s *space) importProgress(key, value []byte) {
	var rec importProgress
	if s.decode(key, value, &rec) && rec.Lines < 2 {
		s.bad(key, foundMalformed, "it tells of %d lines, of which the first is no record", rec.Lines)
	}
	s.expires(key)
}

func (s *space) stagedSession(key, value []byte) {
	s.incarnationIn(key, value)
	s.damagedStaged(key)
}

func (s *space) stagedBoard(key, _ []byte) { s.damagedStaged(key) }

func (s *space) damagedStaged(key []byte) { s.staged[incarnation(key[len(key)-8:])] = true }

func (s *space) projectJob(key, _ []byte) { s.damagedProjectJob(key) }

func (s *space) damagedProjectJob(key []byte) { s.sweptProjects[incarnation(key[3:])] = true }

func (s *space) decisionsJob(key, value []byte) {
	if len(value) != 8 {
		s.bad(key, foundMalformed, "it holds %d bytes, not the 8 of a time", len(value))
	}
}

// retention is a tenant's daily job. What it says of its kinds is of the version that wrote it.
func (s *space) retention(key, value []byte) {
	var rec retentionState
	s.decode(key, value, &rec)
}

// keyUse may outlive its key, which is removed before it.
func (s *space) keyUse(key, value []byte) {
	id := string(key[2:])
	if len(value) != 8 {
		s.bad(key, foundMalformed, "it holds %d bytes, not the 8 of a time", len(value))
	}
	if _, ok := s.keys[id]; !ok && s.lostKeys == 0 {
		s.bad(key, foundOrphan, "it tells when the key %q was used, which is not there", id).harmless = true
	}
}

func (s *space) damagedKey([]byte) { s.lostKeys++ }

func (s *space) headlessJob(key, _ []byte) { s.damagedHeadlessJob(key) }

func (s *space) damagedHeadlessJob([]byte) { s.sweptHeadless = true }

func (s *space) damagedTenantJob(key []byte) { s.tenantJob(key, nil) }

func (s *space) tenantJob(key, _ []byte) { s.sweptTenants[string(key[3:])] = true }

func (s *space) tenantRecord(key, value []byte) {
	var rec tenantRecord
	if !s.decode(key, value, &rec) {
		s.damagedTenant(key)
		return
	}
	id := idIn(key, 2)
	if rec.ID != id {
		s.bad(key, foundMalformed, "tenant %q calls itself %q", id, rec.ID)
	}
	if rec.Deleting != s.sweptTenants[id] {
		s.bad(key, foundMismatch, "tenant %q is being deleted: %t; there is a job that does it: %t", id, rec.Deleting,
			s.sweptTenants[id])
	}
	s.tenants[id] = rec
	delete(s.sweptTenants, id)
}

// damagedTenant lets the tenant's records count as a tenant's.
func (s *space) damagedTenant(key []byte) {
	s.tenants[idIn(key, 2)] = tenantRecord{}
	delete(s.sweptTenants, idIn(key, 2))
}

// finishRecords tells what was named and did not come.
func (s *space) finishRecords() {
	for key, kind := range s.expiring {
		s.wrong(kind, []byte(key), foundMissing, "the expiry index does not name it, so that it would stay for good")
	}
	s.expiring = nil
	for id, made := range s.keys {
		if made != s.live && s.live != (incarnation{}) { // whose loss is told once
			s.wrong("key", apiKeyKey(id), foundMismatch, "key %q was made in another tenant of this name", id)
		}
	}
	for id := range s.sweptTenants {
		s.wrong("job_tenant", sweepKey(sweepTenant, []byte(id)), foundOrphan, "a tenant %q that is not there is to be swept",
			strings.ToValidUTF8(id, "?"))
	}
}
