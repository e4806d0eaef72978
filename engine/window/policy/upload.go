package policy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// Quota limits the policies of each tenant.
type Quota struct {
	Versions int   // of all policies; 0 means 1,000
	Bytes    int64 // of their modules; 0 means 256 MiB
}

// OrDefault replaces zero limits by the defaults.
func (q Quota) OrDefault() Quota {
	if q.Versions == 0 {
		q.Versions = 1000
	}
	if q.Bytes == 0 {
		q.Bytes = 256 << 20
	}
	return q
}

// usage counts a tenant's stored policies. Every upload and deletion rewrites it, so only one can commit at a time.
type usage struct {
	Versions int   `json:"versions"`
	Bytes    int64 `json:"bytes"` // of modules
}

func readUsage(t *records.Tx) (usage, error) {
	u, err := records.GetTx[usage](t, records.PolicyUsage.Key())
	if u == nil {
		u = new(usage)
	}
	return *u, err
}

// check returns quota_exceeded if a tenant may not store one more version of size bytes.
func (q Quota) check(u usage, size int) error {
	switch {
	case u.Versions >= q.Versions:
		return fault.Errorf(fault.NoSpace, "quota_exceeded",
			"the tenant keeps %d versions of policies and may keep no more", u.Versions)
	case u.Bytes+int64(size) > q.Bytes:
		return fault.Errorf(fault.NoSpace, "quota_exceeded",
			"the tenant's policy modules have %d bytes; %d more would exceed %d", u.Bytes, size, q.Bytes)
	}
	return nil
}

// Upload checks a module, the bytes of a WASM file, and stores it as the next version of a policy. The first version
// becomes live at once. If the bytes are a version already, Upload returns that one, and created is false. Nothing is
// stored of a module that fails the checks. Errors are key_narrowed, invalid_id, built_in_policy, quota_exceeded,
// uploads_waiting, and module_refused with the failed check.
func (svc *Service) Upload(ctx context.Context, c ident.Caller, once ident.Once, name string, code []byte,
) (v Version, created bool, err error) {
	if err := c.WholeTenant(); err != nil {
		return v, false, err
	}
	if !validName(name) {
		return v, false, badName()
	}
	if err := svc.mayUpload(ctx, c.Tenant, name); err != nil {
		return v, false, err
	}
	if err := svc.enterUploads(ctx, c.Tenant); err != nil {
		return v, false, err
	}
	defer svc.uploads.Leave(c.Tenant)
	u := &upload{svc: svc, name: name, code: code, digest: sha256.Sum256(code)}
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (uploaded, error) { return u.commit(t, c) })
	return out.Version, out.Created, err
}

// mayUpload returns built_in_policy for the name of a built-in, unless the tenant has its own policy of that name.
func (svc *Service) mayUpload(ctx context.Context, tenant, name string) error {
	if !svc.IsBuiltIn(name) {
		return nil
	}
	rec, err := svc.read(ctx, tenant, name)
	if err == nil && rec == nil {
		err = errBuiltIn(name)
	}
	return err
}

// Uploads are checked one at a time for each tenant, and for two tenants at once. A check takes seconds of processor
// time if the self-tests use all of their fuel. If all uploads ran at once, all would be too late.
const (
	uploadsAtOnce = 2
	// uploadWait is how long an upload waits for its turn. A request may take 30 seconds, so 10 are left for the
	// upload.
	uploadWait = 20 * time.Second
	// uploadsWaiting is the maximum number of waiting uploads of one tenant. Each has its module in memory.
	uploadsWaiting = 16
)

// enterUploads waits for the tenant's turn to upload, or returns uploads_waiting.
func (svc *Service) enterUploads(ctx context.Context, tenant string) error {
	busy := fault.Errorf(fault.Unavailable, "uploads_waiting", "too many uploads are waiting; this one was not tried")
	if svc.uploads.WaitingOf(tenant) >= uploadsWaiting {
		return busy
	}
	wait, cancel := context.WithTimeout(ctx, uploadWait)
	defer cancel()
	err := svc.uploads.Enter(wait, tenant)
	if err != nil && ctx.Err() == nil {
		return busy
	}
	return err
}

// upload is a module that is being uploaded. It is checked once, even if its commit is retried.
type upload struct {
	svc    *Service
	name   string
	code   []byte
	digest plan.Digest
	facts  *Facts // nil until it has been checked
}

// uploaded is the response to an upload, as stored for idempotent requests.
type uploaded struct {
	Version
	Created bool `json:"created"`
}

// commit adds the writes to t that make the module a version.
func (u *upload) commit(t *records.Tx, c ident.Caller) (out uploaded, err error) {
	rec, err := readTx(t, u.name)
	if err != nil {
		return out, err
	}
	if rec == nil {
		rec = &record{Name: u.name, CreatedAt: t.Now}
	}
	same := func(v versionEntry) bool { return plan.Digest(v.Digest) == u.digest }
	if at := slices.IndexFunc(rec.Versions, same); at >= 0 {
		out.Version, err = u.svc.GetVersion(t.Ctx, c, u.name, rec.Versions[at].Version)
		return out, err
	}
	if u.facts == nil {
		// The quota is checked first, because checking a module takes a while.
		usage, err := readUsage(t)
		if err == nil {
			err = u.svc.quota.check(usage, len(u.code))
		}
		if err == nil {
			u.facts, err = u.svc.admit(t.Ctx, c.Tenant, u.code)
		}
		if err != nil {
			return out, err
		}
	}
	entry := versionEntry{Version: rec.Last + 1, Digest: u.digest[:], Size: len(u.code), CreatedAt: t.Now}
	if err := u.svc.addVersion(t, rec, entry, u.facts, u.code); err != nil {
		return out, err
	}
	if len(rec.Versions) == 1 {
		rec.Live = rec.Last
	}
	out = uploaded{Version{Name: u.name, VersionState: u.svc.versionState(c.Tenant, rec, &entry), Facts: *u.facts}, true}
	if err := tenant.Audit(t, c, "policy.upload", VersionName(u.name, rec.Last), out.Digest); err != nil {
		return out, err
	}
	return out, t.PutJSON(records.Policy.Key(u.name), rec)
}

// addVersion adds the writes to t that make a module a policy's newest version, within the quota. It changes the
// policy's record, which the caller must write.
func (svc *Service) addVersion(t *records.Tx, rec *record, v versionEntry, facts *Facts, code []byte) error {
	usage, err := readUsage(t)
	if err == nil {
		err = svc.quota.check(usage, len(code))
	}
	if err != nil {
		return err
	}
	said, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	if len(said) > store.MaxValue {
		return refused(&plan.Refusal{Check: "manifest", Found: int64(len(said)), Limit: store.MaxValue,
			Detail: "description and config are too long"})
	}
	rec.Last = v.Version
	rec.Versions = append(rec.Versions, v)
	t.Put(records.PolicyVersion.Key(rec.Name, uint32(v.Version)), said)
	t.Put(records.Module.Key(plan.Digest(v.Digest)), code)
	usage.Versions++
	usage.Bytes += int64(len(code))
	return t.PutJSON(records.PolicyUsage.Key(), usage)
}

// admit runs the host's checks and the module's own tests. It returns module_refused if one fails.
func (svc *Service) admit(ctx context.Context, tenant string, code []byte) (*Facts, error) {
	p, err := svc.host.Load(ctx, tenant, code)
	var passed plan.Check
	if err == nil {
		passed, err = svc.Prove(ctx, tenant, p)
	}
	if err != nil {
		svc.host.Refuse(tenant, sha256.Sum256(code))
	}
	if refusal, ok := errors.AsType[*plan.Refusal](err); ok {
		return nil, refused(refusal)
	}
	if err != nil {
		return nil, err
	}
	svc.registry.learn(tenant, p)
	p.Checks = append(slices.Clip(p.Checks), passed)
	facts := factsOf(p)
	return &facts, nil
}

// refused returns the error for a module that fails a check.
func refused(r *plan.Refusal) *fault.Error {
	return &fault.Error{Kind: fault.Invalid, Code: "module_refused", Detail: r.Error(), Refusal: r}
}
