package policy

import (
	"context"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// record is a stored policy: what making a window needs of it. It never changes once decoded.
type record struct {
	Name      string         `json:"name"`
	CreatedAt time.Time      `json:"created_at"`
	Live      int            `json:"live"`
	Before    []int          `json:"before,omitempty"` // versions that were live, oldest first
	Last      int            `json:"last"`             // number of the newest upload; numbers are not used again
	Versions  []versionEntry `json:"versions"`         // ascending
	// Pipelines counts the times that a pipeline was set to name it, so that a deletion at the same time loses.
	Pipelines uint64 `json:"pipelines,omitempty"`
}

// versionEntry is what a policy's record says of one version.
type versionEntry struct {
	Version   int       `json:"version"`
	Digest    []byte    `json:"digest"` // of the module
	Size      int       `json:"size"`   // of the module, in bytes
	CreatedAt time.Time `json:"created_at"`
	SetBack   *SetBack  `json:"set_back,omitempty"`
}

// version finds a version by its number; nil where there is none.
func (p *record) version(n int) *versionEntry {
	if i := slices.IndexFunc(p.Versions, func(v versionEntry) bool { return v.Version == n }); i >= 0 {
		return &p.Versions[i]
	}
	return nil
}

// makeLive lets the bare name mean another version and remembers which it meant before.
func (p *record) makeLive(version int) {
	const remembered = 16
	p.Before = slices.DeleteFunc(p.Before, func(n int) bool { return n == version || n == p.Live })
	p.Before = append(p.Before, p.Live)
	p.Before = p.Before[max(0, len(p.Before)-remembered):]
	p.Live = version
	p.version(version).SetBack = nil
}

// read reads one of a tenant's policies; nil where there is none, or it is damaged.
func (svc *Service) read(ctx context.Context, tenant, name string) (*record, error) {
	if !ident.ValidID(name) {
		return nil, nil
	}
	set, err := svc.Read(ctx, tenant, []string{name})
	return set.find(name), err
}

// readTx reads a policy to change it; nil where there is none.
func readTx(t *records.Tx, name string) (*record, error) {
	if !ident.ValidID(name) {
		return nil, nil
	}
	return records.GetTx[record](t, records.Policy.Key(name))
}

// change reads a policy that must exist and be the tenant's own. It answers built_in_policy or not_found.
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

// Set are policies of a tenant by name, as read together.
type Set struct {
	names   []string
	records []*record // nil where there is no such policy
}

func (s Set) find(name string) *record {
	if i := slices.Index(s.names, name); i >= 0 {
		return s.records[i]
	}
	return nil
}

// Has tells whether the tenant has a policy of that name.
func (s Set) Has(name string) bool { return s.find(name) != nil }

// Same tells whether two sets of the same names are of the same state. Records come from a memo, so the same bytes are
// the same pointer.
func (s Set) Same(other Set) bool { return slices.Equal(s.records, other.records) }

// Keys are those of policies' records, for a caller that reads them along with others and gives them to Set.
func Keys(names []string) [][]byte {
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i] = records.Policy.Key(name)
	}
	return keys
}

// Set decodes the records read for names. One that is damaged counts as absent, because windows go on without it.
func (svc *Service) Set(tenant string, names []string, items []store.Item) (Set, error) {
	set := Set{names: names, records: make([]*record, len(names))}
	for i, it := range items {
		if it.Damaged {
			svc.db.Log.Error("a policy's record is damaged", "tenant", tenant, "policy", names[i])
		}
		if it.Value == nil {
			continue
		}
		rec, err := svc.memo.Decode(tenant+"/"+names[i], it.Value)
		if err != nil {
			return set, err
		}
		set.records[i] = rec
	}
	return set, nil
}

// Read reads policies by name, as Set.
func (svc *Service) Read(ctx context.Context, tenant string, names []string) (Set, error) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: Keys(names)})
	if err != nil {
		return Set{}, err
	}
	return svc.Set(tenant, names, r.Keys)
}
