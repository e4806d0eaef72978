package policy

import (
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Set are policy records by name, as read together; nil where there is no such policy.
type Set struct {
	names   []string
	Records []*record
}

func (s Set) find(name string) *record {
	if i := slices.Index(s.names, name); i >= 0 {
		return s.Records[i]
	}
	return nil
}

func Keys(names []string) [][]byte {
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i] = records.Policy.Key(name)
	}
	return keys
}

// Set decodes the records read for names. One that is damaged counts as absent: windows go on without it.
func (svc *Service) Set(tenant string, names []string, items []store.Item) (Set, error) {
	set := Set{names: names, Records: make([]*record, len(names))}
	for i, it := range items {
		if it.Damaged {
			svc.db.Log.Error("a policy's record is damaged", "tenant", tenant, "policy", names[i])
		}
		if it.Value == nil {
			continue
		}
		rec, err := svc.policyRecords.Decode(tenant+"/"+names[i], it.Value)
		if err != nil {
			return set, err
		}
		set.Records[i] = rec
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
