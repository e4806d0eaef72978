package policy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// usage is what a tenant keeps of policies. Every upload and deletion rewrites it, which makes them take turns.
type usage struct {
	Versions int   `json:"versions"`
	Bytes    int64 `json:"bytes"`
}

func ReadUsage(t *records.Tx) (u usage, err error) {
	got, err := t.Get(records.PolicyUsage.Key())
	if err != nil || got[0].Value == nil {
		return u, err
	}
	return u, json.Unmarshal(got[0].Value, &u)
}

// check refuses what would be more than a tenant may keep.
func (q Quota) check(u usage, size int) error {
	switch {
	case u.Versions >= q.Versions:
		return fault.Errorf(fault.NoSpace, "quota_exceeded", "the tenant keeps %d versions of policies and may keep no more", u.Versions)
	case u.Bytes+int64(size) > q.Bytes:
		return fault.Errorf(fault.NoSpace, "quota_exceeded", "the tenant's policy modules have %d bytes; %d more would exceed %d",
			u.Bytes, size, q.Bytes)
	}
	return nil
}

// upload is the answer to an upload, as it is kept for an idempotent request.
type upload struct {
	Version
	Created bool `json:"created"`
}

// Upload admits a module and keeps it as the next version of a policy, the first of which is live at once. Bytes
// that are a version already answer that one. A module that is refused leaves nothing behind. UploadPolicy answers
// key_narrowed, invalid_id, built_in_policy, quota_exceeded, and module_refused with the check that the module failed.
func (svc *Service) Upload(ctx context.Context, c access.Caller, once access.Once, name string, code []byte,
) (v Version, created bool, err error) {
	if err := c.WholeTenant(); err != nil {
		return Version{}, false, err
	}
	if !ident.ValidID(name) || strings.Contains(name, "@") {
		return v, false, fault.InvalidField("name", "invalid_id", "must be 1 to 128 characters of A-Z a-z 0-9 . _ : -")
	}
	if svc.IsBuiltIn(name) {
		return v, false, errBuiltIn(name)
	}
	u := &uploading{e: svc, name: name, code: code, digest: sha256.Sum256(code)}
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (upload, error) { return u.commit(t, c) })
	return out.Version, out.Created, err
}

// uploading is a module that is being uploaded. It is admitted once, however often its commit is tried.
type uploading struct {
	e      *Service
	name   string
	code   []byte
	digest plan.Digest
	facts  *Facts // once it is admitted
}

// commit collects the writes that make the module a version.
func (u *uploading) commit(t *records.Tx, c access.Caller) (out upload, err error) {
	rec, err := Read(t, u.name)
	if err != nil {
		return out, err
	}
	if rec == nil {
		rec = &record{Name: u.name, CreatedAt: t.Now}
	}
	same := func(v versionEntry) bool { return plan.Digest(v.Digest) == u.digest }
	if at := slices.IndexFunc(rec.Versions, same); at >= 0 {
		out.Version, err = u.e.GetVersion(t.Ctx, c, u.name, rec.Versions[at].Version)
		return out, err
	}
	usage, err := ReadUsage(t)
	if err == nil {
		err = u.e.policyQuota.check(usage, len(u.code))
	}
	if err == nil && u.facts == nil {
		u.facts, err = u.e.admit(t.Ctx, c.Tenant, u.code)
	}
	if err != nil {
		return out, err
	}
	rec.Last++
	rec.Versions = append(rec.Versions,
		versionEntry{Version: rec.Last, Digest: u.digest[:], Size: len(u.code), CreatedAt: t.Now})
	if len(rec.Versions) == 1 {
		rec.Live = rec.Last
	}
	entry := &rec.Versions[len(rec.Versions)-1]
	out = upload{Version{u.name, u.e.versionState(c.Tenant, rec, entry), *u.facts}, true}
	facts, err := json.Marshal(u.facts)
	if err != nil {
		return out, err
	}
	if len(facts) > store.MaxValue {
		return out, refused(&plan.Refusal{Check: "manifest", Found: int64(len(facts)), Limit: store.MaxValue,
			Detail: "description and config are too long"})
	}
	t.Put(records.PolicyVersion.Key(u.name, uint32(rec.Last)), facts)
	t.Put(records.Module.Key(u.digest), u.code)
	usage.Versions++
	usage.Bytes += int64(len(u.code))
	if err := t.PutJSON(records.PolicyUsage.Key(), usage); err != nil {
		return out, err
	}
	if err := tenant.Audit(t, c, "policy.upload", VersionName(u.name, rec.Last), out.Digest); err != nil {
		return out, err
	}
	return out, t.PutJSON(records.Policy.Key(u.name), rec)
}

// admit takes a module through the host's checks and its own tests.
func (svc *Service) admit(ctx context.Context, tenant string, code []byte) (*Facts, error) {
	p, err := svc.host.Load(ctx, tenant, code)
	if refusal, ok := errors.AsType[*plan.Refusal](err); ok {
		return nil, refused(refusal)
	}
	if err != nil {
		return nil, err
	}
	passed, err := svc.Prove(ctx, tenant, p)
	if refusal, ok := errors.AsType[*plan.Refusal](err); ok {
		return nil, refused(refusal)
	}
	if err != nil {
		return nil, err
	}
	svc.registry.learn(p)
	p.Checks = append(slices.Clip(p.Checks), passed)
	facts := factsOf(p)
	return &facts, nil
}

// refused is the answer to a module that fails a check.
func refused(r *plan.Refusal) *fault.Error {
	return &fault.Error{Kind: fault.Invalid, Code: "module_refused", Detail: r.Error(), Refusal: r}
}
