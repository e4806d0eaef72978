package engine

import (
	"context"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// policySet are policy records by name, as read together; nil where there is no such policy.
type policySet struct {
	names   []string
	records []*policyRecord
}

func (s policySet) find(name string) *policyRecord {
	if i := slices.Index(s.names, name); i >= 0 {
		return s.records[i]
	}
	return nil
}

func policyKeys(names []string) [][]byte {
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i] = kindPolicy.Key(name)
	}
	return keys
}

// policySet decodes the records read for names. One that is damaged counts as absent: windows go on without it.
func (e *Engine) policySet(tenant string, names []string, items []store.Item) (policySet, error) {
	set := policySet{names: names, records: make([]*policyRecord, len(names))}
	for i, it := range items {
		if it.Damaged {
			e.log.Error("a policy's record is damaged", "tenant", tenant, "policy", names[i])
		}
		if it.Value == nil {
			continue
		}
		rec, err := e.policyRecords.decode(tenant+"/"+names[i], it.Value)
		if err != nil {
			return set, err
		}
		set.records[i] = rec
	}
	return set, nil
}

// readPolicies reads policies by name.
func (e *Engine) readPolicies(ctx context.Context, tenant string, names []string) (policySet, error) {
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: policyKeys(names)})
	if err != nil {
		return policySet{}, err
	}
	return e.policySet(tenant, names, r.Keys)
}
