package engine

import (
	"crypto/sha256"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// policyChecks is what is known of the policies in a space. Their records come before usage, modules and versions.
type policyChecks struct {
	policies     map[string]*policyRecord // nil: none, as in most tenants
	lostPolicies bool                     // a record is damaged: what it names is not known
	modules      map[plan.Digest]int      // named -> size, -1 where none is said
	versions     map[string]bool          // policyVersionKey of those that were named and did not come yet
	usage        policyUsage              // as counted
	usageSeen    bool
}

func (c *policyChecks) init() { c.modules, c.versions = map[plan.Digest]int{}, map[string]bool{} }

// namedPolicy is an entry of a project's pipeline.
type namedPolicy struct{ project, ref string }

func (s *space) policy(key, value []byte) {
	rec := new(policyRecord)
	name := idIn(key, 2)
	if !s.decode(key, value, rec) {
		s.lostPolicies = true
		return
	}
	if s.policies == nil {
		s.policies = map[string]*policyRecord{}
	}
	s.policies[name] = rec
	if rec.Name != name || rec.version(rec.Live) == nil {
		s.bad(key, foundMalformed, "policy %q calls itself %q and has no version %d, which is to be live", name, rec.Name, rec.Live)
	}
	for i, v := range rec.Versions {
		if len(v.Digest) != sha256.Size || v.Version > rec.Last || i > 0 && v.Version <= rec.Versions[i-1].Version {
			s.bad(key, foundMalformed, "policy %q: version %d is out of order or has no digest", name, v.Version)
			continue
		}
		s.usage.Versions++
		s.usage.Bytes += int64(v.Size)
		s.modules[plan.Digest(v.Digest)] = v.Size
		s.versions[string(policyVersionKey(name, v.Version))] = true
	}
}

func (s *space) damagedPolicy([]byte) { s.lostPolicies = true }

func (s *space) policyUsage(key, value []byte) {
	var rec policyUsage
	s.usageSeen = true
	if s.decode(key, value, &rec) && rec != s.usage && !s.lostPolicies {
		s.bad(key, foundMismatch, "it counts %d versions of %d bytes, there are %d of %d", rec.Versions, rec.Bytes,
			s.usage.Versions, s.usage.Bytes)
	}
}

func (s *space) damagedUsage([]byte) { s.usageSeen = true }

func (s *space) builtIn(key, value []byte) {
	var rec builtInRecord
	s.builtIns[idIn(key, 2)] = true
	if !s.decode(key, value, &rec) {
		s.lostPolicies = true
		return
	}
	for _, d := range rec.Digests {
		if len(d) != sha256.Size {
			s.bad(key, foundMalformed, "a digest of %d bytes", len(d))
			continue
		}
		s.modules[plan.Digest(d)] = -1
	}
}

func (s *space) damagedBuiltIn(key []byte) {
	s.builtIns[idIn(key, 2)] = true
	s.lostPolicies = true
}

func (s *space) damagedModule(key []byte) { s.moduleRecord(key, nil) }

func (s *space) module(key, value []byte) { s.moduleRecord(key, value) }

// moduleRecord holds a module against its digest and the policy that names it; value is nil where it is damaged.
func (s *space) moduleRecord(key, value []byte) {
	digest, _ := kindModule.Split(key)
	size, named := s.modules[digest]
	delete(s.modules, digest)
	switch {
	case !named && !s.lostPolicies:
		s.wrong("module", key, foundOrphan, "no policy names the module %s", hexDigest(digest))
	case value == nil:
	case sha256.Sum256(value) != digest:
		s.wrong("module", key, foundMismatch, "the module is not the one that its digest names: %s", hexDigest(digest))
	case named && size >= 0 && size != len(value):
		s.wrong("module", key, foundMismatch, "the module has %d bytes, its policy says %d", len(value), size)
	}
}

func (s *space) policyVersion(key, value []byte) {
	var facts PolicyFacts
	s.decode(key, value, &facts)
	s.damagedVersion(key)
}

func (s *space) damagedVersion(key []byte) {
	if !s.versions[string(key)] && !s.lostPolicies {
		s.bad(key, foundOrphan, "no policy has this version")
	}
	delete(s.versions, string(key))
}

func (s *space) finishPolicies() {
	for digest := range s.modules {
		s.wrong("module", moduleKey(digest), foundMissing, "the module %s is not there", hexDigest(digest))
	}
	for key := range s.versions {
		s.wrong("policy_version", []byte(key), foundMissing, "what the version's module says of itself is not there")
	}
	if !s.usageSeen && s.usage.Versions > 0 {
		s.wrong("policy_usage", policyUsageKey(), foundMissing, "the count of %d versions is not there", s.usage.Versions)
	}
	s.modules, s.versions = nil, nil
}

// pipelines holds what projects name against what there is.
func (s *space) pipelines(builtIns map[string]bool) {
	for _, n := range s.named {
		name, _, _ := strings.Cut(n.ref, "@")
		if builtIns[name] || s.lostPolicies {
			continue
		}
		if s.policies[name] == nil {
			s.wrong("project", projectKey(n.project), foundMissing, "the pipeline of project %q names the policy %q, which is not "+
				"there", n.project, n.ref)
		}
	}
}
