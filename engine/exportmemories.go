package engine

import (
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// memoryPart is what a tenant's file holds of memories.
type memoryPart struct {
	simplePart
	e     *Engine
	adds  amount
	batch memoryBatch
}

func (*memoryPart) types() []string { return []string{memoryType} }

// memoryLine is a memory with what it was before, the oldest version first.
type memoryLine struct {
	fileLine
	Project string `json:"project"`
	Memory
	History []MemoryVersion `json:"history,omitempty"`
}

const memoryType = "memory"

// memoriesExported bounds the memories that are read, or written, together.
const memoriesExported = 32

// export writes memories by their last change, the oldest first: the order in which the index has them. One that
// is changed meanwhile comes up again, and is in the file once.
func (p *memoryPart) export(x *exporting) error {
	seen := nameSet{}
	return eachProject(x, func(project *project) error {
		rng := kindMemoryTime.Under(project.Incarnation)
		rng.Limit, rng.KeysOnly, rng.Reverse = memoriesExported, true, true
		for {
			r, err := p.e.store.Read(x.ctx, x.caller.Tenant, store.Query{Ranges: []store.Range{rng}})
			if err != nil {
				return err
			}
			var keys []string
			for _, it := range r.Ranges[0] {
				_, key := splitMemoryTime(it.Key)
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
func (p *memoryPart) exportMemories(x *exporting, project *project, keys []string, seen nameSet) error {
	found, err := p.e.loadLive(x.ctx, x.caller.Tenant, project, keys)
	if err != nil {
		return err
	}
	for i, rec := range found {
		if rec == nil || !seen.add(project.ID, keys[i]) {
			continue
		}
		if rec.damaged {
			return errorf(Internal, "storage_damaged", "memory %q cannot be read, so the export would not be whole",
				keys[i])
		}
		line := memoryLine{fileLine: fileLine{memoryType}, Project: project.ID, Memory: rec.Memory}
		line.History, err = p.e.pastVersions(x.ctx, x.caller.Tenant, project, rec, rec.History)
		if err != nil {
			return err
		}
		if err := x.put(line); err != nil {
			return err
		}
	}
	return nil
}
