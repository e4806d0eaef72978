package policy

import (
	"context"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// record is a stored policy, with what making a window needs. It is never changed after it was decoded.
type record struct {
	Name      string         `json:"name"`
	CreatedAt time.Time      `json:"created_at"`
	Live      int            `json:"live"`
	Before    []int          `json:"before,omitempty"` // versions that were live, oldest first
	Last      int            `json:"last"`             // number of the newest upload; numbers are not used again
	Versions  []versionEntry `json:"versions"`         // ascending
	// Pipelines is increased whenever a pipeline that names the policy is stored, so that a concurrent deletion fails.
	Pipelines uint64 `json:"pipelines,omitempty"`
}

// versionEntry is a version in a policy's record.
type versionEntry struct {
	Version   int       `json:"version"`
	Digest    []byte    `json:"digest"` // of the module
	Size      int       `json:"size"`   // of the module, in bytes
	CreatedAt time.Time `json:"created_at"`
	SetBack   *SetBack  `json:"set_back,omitempty"`
}

// version returns the version with a number, or nil.
func (p *record) version(n int) *versionEntry {
	if i := slices.IndexFunc(p.Versions, func(v versionEntry) bool { return v.Version == n }); i >= 0 {
		return &p.Versions[i]
	}
	return nil
}

// makeLive makes a version live and remembers the one that was live before.
func (p *record) makeLive(version int) {
	const remembered = 16
	p.Before = slices.DeleteFunc(p.Before, func(n int) bool { return n == version || n == p.Live })
	p.Before = append(p.Before, p.Live)
	p.Before = p.Before[max(0, len(p.Before)-remembered):]
	p.Live = version
	p.version(version).SetBack = nil
}

// read reads one of a tenant's policies. It returns nil if there is none, or if it is damaged.
func (svc *Service) read(ctx context.Context, tenant, name string) (*record, error) {
	if !ident.ValidID(name) {
		return nil, nil
	}
	set, err := svc.Read(ctx, tenant, []string{name})
	return set.find(name), err
}

// readTx reads a policy in order to change it. It returns nil if there is none.
func readTx(t *records.Tx, name string) (*record, error) {
	if !ident.ValidID(name) {
		return nil, nil
	}
	return records.GetTx[record](t, records.Policy.Key(name))
}

// change reads a policy, which must exist and be the tenant's own, in order to change it. It returns built_in_policy or
// not_found.
func (svc *Service) change(t *records.Tx, name string) (*record, error) {
	rec, err := readTx(t, name)
	switch {
	case err != nil || rec != nil:
	case svc.IsBuiltIn(name):
		err = errBuiltIn(name)
	default:
		err = notFound(name)
	}
	return rec, err
}

// Set holds policies of a tenant by name, which were read together.
type Set struct {
	names   []string
	records []*record // nil if there is no such policy
}

func (s Set) find(name string) *record {
	if i := slices.Index(s.names, name); i >= 0 {
		return s.records[i]
	}
	return nil
}

// Has reports whether the tenant has a policy with that name.
func (s Set) Has(name string) bool { return s.find(name) != nil }

// Same reports whether two sets of the same names have the same state. Decoded records are cached by their bytes, so
// comparing pointers suffices.
func (s Set) Same(other Set) bool { return slices.Equal(s.records, other.records) }

// Keys returns the keys of policies' records, for callers that read them together with other records and then call Set.
func Keys(names []string) [][]byte {
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i] = records.Policy.Key(name)
	}
	return keys
}

// Set decodes the records of Keys. Damaged ones count as absent, because windows can be made without them.
func (svc *Service) Set(tenant string, names []string, items []store.Item) (Set, error) {
	set := Set{names: names, records: make([]*record, len(names))}
	for i, it := range items {
		if it.Damaged {
			svc.db.Log.Error("a policy's record is damaged", "tenant", tenant, "policy", names[i])
		}
		if it.Value == nil {
			continue
		}
		rec, err := svc.memo.Decode(ident.Join(tenant, names[i]), it.Value)
		if err != nil {
			return set, err
		}
		set.records[i] = rec
	}
	return set, nil
}

// Read reads policies by name.
func (svc *Service) Read(ctx context.Context, tenant string, names []string) (Set, error) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: Keys(names)})
	if err != nil {
		return Set{}, err
	}
	return svc.Set(tenant, names, r.Keys)
}
