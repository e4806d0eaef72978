package policy

import (
	"crypto/sha256"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// checks checks the policies of a tenant, or of the system space. Policies are checked before usage, modules and
// versions.
type checks struct {
	projects  *project.Checks
	names     map[string]bool     // of policies
	builtIns  map[string]bool     // in the system space
	lost      bool                // a record could not be read, so it is unknown what it refers to
	modules   map[plan.Digest]int // sizes of modules that were referred to and not seen yet; -1 if unknown
	usage     usage               // as counted
	usageSeen bool
}

// NewChecks returns the checks of one tenant, or of the system space.
func NewChecks(projects *project.Checks) verify.Checker {
	return &checks{projects: projects, names: map[string]bool{}, builtIns: map[string]bool{},
		modules: map[plan.Digest]int{}}
}

// Checks lists the kinds of records and their checks.
func (c *checks) Checks() []verify.Check {
	return []verify.Check{
		{Kind: records.Policy, Record: c.policy},
		{Kind: records.PolicyVersion, Record: c.version},
		{Kind: records.PolicyUsage, Record: c.used},
		{Kind: records.Module, Record: c.module},
		{Kind: records.BuiltIn, Record: c.builtIn},
	}
}

func (c *checks) policy(s *verify.Space, it store.Item) {
	var rec record
	name, _ := records.Policy.Split(it.Key)
	if !s.Decode(it, &rec) {
		c.lost = true
		return
	}
	c.names[name], s.InUse = true, true
	if rec.Name != name || rec.version(rec.Live) == nil {
		s.Malformed("policy %q calls itself %q and has no version %d, which is to be live", name, rec.Name, rec.Live)
	}
	for i, v := range rec.Versions {
		if len(v.Digest) != sha256.Size || v.Version > rec.Last || i > 0 && v.Version <= rec.Versions[i-1].Version {
			s.Malformed("policy %q: version %d is out of order or has no digest", name, v.Version)
			continue
		}
		c.usage.Versions++
		c.usage.Bytes += int64(v.Size)
		c.modules[plan.Digest(v.Digest)] = v.Size
		key := records.PolicyVersion.Key(name, uint32(v.Version))
		s.Expect(key, s.At(records.PolicyVersion, key), "what the version's module says of itself is not there")
	}
}

func (c *checks) used(s *verify.Space, it store.Item) {
	var rec usage
	c.usageSeen = true
	if s.Decode(it, &rec) && rec != c.usage && !c.lost {
		s.Mismatch("it counts %d versions of %d bytes, there are %d of %d", rec.Versions, rec.Bytes,
			c.usage.Versions, c.usage.Bytes)
	}
}

func (c *checks) builtIn(s *verify.Space, it store.Item) {
	var rec builtInRecord
	name, _ := records.BuiltIn.Split(it.Key)
	c.builtIns[name] = true
	if !s.Decode(it, &rec) {
		c.lost = true
		return
	}
	for _, d := range rec.Digests {
		if len(d) != sha256.Size {
			s.Malformed("a digest of %d bytes", len(d))
			continue
		}
		c.modules[plan.Digest(d)] = -1
	}
}

// module checks a module against its digest and the policy that refers to it.
func (c *checks) module(s *verify.Space, it store.Item) {
	digest, _ := records.Module.Split(it.Key)
	size, named := c.modules[digest]
	delete(c.modules, digest)
	switch {
	case !named && !c.lost:
		s.Orphan("no policy names the module %s", hexDigest(digest))
	case it.Damaged:
	case sha256.Sum256(it.Value) != digest:
		s.Mismatch("the module is not the one that its digest names: %s", hexDigest(digest))
	case named && size >= 0 && size != len(it.Value):
		s.Mismatch("the module has %d bytes, its policy says %d", len(it.Value), size)
	}
}

func (c *checks) version(s *verify.Space, it store.Item) {
	s.Decode(it, new(Facts))
	if !s.Came(it.Key) && !c.lost {
		s.Orphan("no policy has this version")
	}
}

// Finish reports missing modules and a missing usage.
func (c *checks) Finish(s *verify.Space) {
	for digest := range c.modules {
		s.At(records.Module, records.Module.Key(digest)).Missing("the module %s is not there", hexDigest(digest))
	}
	if !c.usageSeen && c.usage.Versions > 0 {
		s.At(records.PolicyUsage, records.PolicyUsage.Key()).
			Missing("the count of %d versions is not there", c.usage.Versions)
	}
}

// Across checks that the policies that projects refer to exist.
func (c *checks) Across(s *verify.Space, system verify.Checker) {
	for _, n := range c.projects.Pipelines {
		name, _, _ := strings.Cut(n.Policy, "@")
		if !system.(*checks).builtIns[name] && !c.lost && !c.names[name] {
			s.At(records.Project, records.Project.Key(n.Project)).
				Missing("the pipeline of project %q names the policy %q, which is not there", n.Project, n.Policy)
		}
	}
}
