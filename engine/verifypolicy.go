package engine

import (
	"crypto/sha256"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// policyChecks is what is known of the policies in a space. Their records come before usage, modules and versions.
type policyChecks struct {
	projects  *projectChecks
	names     map[string]bool     // of policies
	builtIns  map[string]bool     // in the system space
	lost      bool                // a record cannot be read: what it names is not known
	modules   map[plan.Digest]int // named, and not seen yet -> size, -1 where none is said
	usage     policyUsage         // as counted
	usageSeen bool
}

func newPolicyChecks(projects *projectChecks) *policyChecks {
	return &policyChecks{projects: projects, names: map[string]bool{}, builtIns: map[string]bool{},
		modules: map[plan.Digest]int{}}
}

func (c *policyChecks) checks() []recordCheck {
	return []recordCheck{
		{kind: "policy", record: c.policy},
		{kind: "policy_version", record: c.version},
		{kind: "policy_usage", record: c.used},
		{kind: "module", record: c.module},
		{kind: "built_in", record: c.builtIn},
	}
}

func (c *policyChecks) policy(s *space, it store.Item) {
	var rec policyRecord
	name := idIn(it.Key, 2)
	if !s.decode(it, &rec) {
		c.lost = true
		return
	}
	c.names[name], s.inUse = true, true
	if rec.Name != name || rec.version(rec.Live) == nil {
		s.malformed("policy %q calls itself %q and has no version %d, which is to be live", name, rec.Name,
			rec.Live)
	}
	for i, v := range rec.Versions {
		if len(v.Digest) != sha256.Size || v.Version > rec.Last || i > 0 && v.Version <= rec.Versions[i-1].Version {
			s.malformed("policy %q: version %d is out of order or has no digest", name, v.Version)
			continue
		}
		c.usage.Versions++
		c.usage.Bytes += int64(v.Size)
		c.modules[plan.Digest(v.Digest)] = v.Size
		key := kindPolicyVersion.Key(name, uint32(v.Version))
		s.expect(key, s.at("policy_version", key), "what the version's module says of itself is not there")
	}
}

func (c *policyChecks) used(s *space, it store.Item) {
	var rec policyUsage
	c.usageSeen = true
	if s.decode(it, &rec) && rec != c.usage && !c.lost {
		s.mismatch("it counts %d versions of %d bytes, there are %d of %d", rec.Versions, rec.Bytes,
			c.usage.Versions, c.usage.Bytes)
	}
}

func (c *policyChecks) builtIn(s *space, it store.Item) {
	var rec builtInRecord
	c.builtIns[idIn(it.Key, 2)] = true
	if !s.decode(it, &rec) {
		c.lost = true
		return
	}
	for _, d := range rec.Digests {
		if len(d) != sha256.Size {
			s.malformed("a digest of %d bytes", len(d))
			continue
		}
		c.modules[plan.Digest(d)] = -1
	}
}

// module holds a module against its digest and the policy that names it.
func (c *policyChecks) module(s *space, it store.Item) {
	digest, _ := kindModule.Split(it.Key)
	size, named := c.modules[digest]
	delete(c.modules, digest)
	switch {
	case !named && !c.lost:
		s.orphan("no policy names the module %s", hexDigest(digest))
	case it.Damaged:
	case sha256.Sum256(it.Value) != digest:
		s.mismatch("the module is not the one that its digest names: %s", hexDigest(digest))
	case named && size >= 0 && size != len(it.Value):
		s.mismatch("the module has %d bytes, its policy says %d", len(it.Value), size)
	}
}

func (c *policyChecks) version(s *space, it store.Item) {
	s.decode(it, new(PolicyFacts))
	if !s.came(it.Key) && !c.lost {
		s.orphan("no policy has this version")
	}
}

func (c *policyChecks) finish(s *space) {
	for digest := range c.modules {
		s.at("module", kindModule.Key(digest)).missing("the module %s is not there", hexDigest(digest))
	}
	if !c.usageSeen && c.usage.Versions > 0 {
		s.at("policy_usage", kindPolicyUsage.Key()).missing("the count of %d versions is not there", c.usage.Versions)
	}
}

// across holds what projects name against what there is.
func (c *policyChecks) across(s *space, system roomChecks) {
	for _, n := range c.projects.pipelines {
		name, _, _ := strings.Cut(n.policy, "@")
		if !system.(*policyChecks).builtIns[name] && !c.lost && !c.names[name] {
			s.at("project", kindProject.Key(n.project)).
				missing("the pipeline of project %q names the policy %q, which is not there", n.project, n.policy)
		}
	}
}
