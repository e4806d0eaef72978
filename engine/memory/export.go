package memory

import (
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/transfer"
)

// Part is what a tenant's file holds of memories.
type Part struct {
	transfer.SimplePart
	E     *Service
	adds  records.Amount
	batch batch
}

func (*Part) Types() []string { return []string{memoryType} }

// memoryLine is a memory with what it was before, the oldest version first.
type memoryLine struct {
	transfer.FileLine
	Project string `json:"project"`
	Memory
	History []Version `json:"history,omitempty"`
}

const memoryType = "memory"

// exported bounds the memories that are read, or written, together.
const exported = 32

// Export writes memories by their last change, the oldest first: the order in which the index has them. One that
// is changed meanwhile comes up again, and is in the file once.
func (p *Part) Export(x *transfer.Exporting) error {
	seen := transfer.NameSet{}
	return project.Each(x, func(project *project.Record) error {
		rng := records.MemoryTime.Under(project.Incarnation)
		rng.Limit, rng.KeysOnly, rng.Reverse = exported, true, true
		for {
			r, err := p.E.db.Store.Read(x.Ctx, x.Caller.Tenant, store.Query{Ranges: []store.Range{rng}})
			if err != nil {
				return err
			}
			var keys []string
			for _, it := range r.Ranges[0] {
				_, key := splitTime(it.Key)
				keys = append(keys, key)
				rng.To = it.Key
			}
			if err := p.exportMemories(x, project, keys, seen); err != nil {
				return err
			}
			if len(r.Ranges[0]) < rng.Limit {
				return nil
			}
		}
	})
}

// exportMemories writes those of the keys that are still there.
func (p *Part) exportMemories(x *transfer.Exporting, project *project.Record, keys []string, seen transfer.NameSet) error {
	found, err := p.E.loadLive(x.Ctx, x.Caller.Tenant, project, keys)
	if err != nil {
		return err
	}
	for i, rec := range found {
		if rec == nil || !seen.Add(project.ID, keys[i]) {
			continue
		}
		if rec.Damaged {
			return fault.Errorf(fault.Internal, "storage_damaged", "memory %q cannot be read, so the export would not be whole",
				keys[i])
		}
		line := memoryLine{FileLine: transfer.FileLine{Type: memoryType}, Project: project.ID, Memory: rec.Memory}
		line.History, err = p.E.pastVersions(x.Ctx, x.Caller.Tenant, project, rec, rec.History)
		if err != nil {
			return err
		}
		if err := x.Put(line); err != nil {
			return err
		}
	}
	return nil
}
