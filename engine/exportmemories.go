package engine

import (
	"crypto/sha256"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

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

// keysSeen tells keys apart that come again, at 16 bytes each however long they are.
type keysSeen map[[16]byte]bool

// add tells whether the key of a project is new.
func (s keysSeen) add(project, key string) bool {
	sum := sha256.Sum256([]byte(project + "\x00" + key))
	n := len(s)
	s[[16]byte(sum[:16])] = true
	return len(s) > n
}

// exportMemories writes memories by their last change, the oldest first: the order in which the index has them. One that
// is changed meanwhile comes up again, and is in the file once.
func exportMemories(x *exporting) error {
	seen := keysSeen{}
	return x.eachProject(func(p *project) error {
		rng := prefixRange(memoryPrefix('t', p.Incarnation))
		rng.Limit, rng.KeysOnly, rng.Reverse = memoriesExported, true, true
		for {
			r, err := x.e.store.Read(x.ctx, x.caller.Tenant, store.Query{Ranges: []store.Range{rng}})
			if err != nil {
				return err
			}
			var keys []string
			for _, it := range r.Ranges[0] {
				_, key := splitMemoryTime(it.Key)
				keys = append(keys, key)
				rng.To = it.Key
			}
			if err := x.memories(p, keys, seen); err != nil {
				return err
			}
			if len(r.Ranges[0]) < rng.Limit {
				return nil
			}
		}
	})
}

// memories writes those of the keys that are still there.
func (x *exporting) memories(p *project, keys []string, seen keysSeen) error {
	found, err := x.e.loadLive(x.ctx, x.caller.Tenant, p, keys)
	if err != nil {
		return err
	}
	for i, rec := range found {
		if rec == nil || !seen.add(p.ID, keys[i]) {
			continue
		}
		if rec.damaged {
			return errorf(Internal, "storage_damaged", "memory %q cannot be read, so the export would not be whole", keys[i])
		}
		line := memoryLine{fileLine: fileLine{memoryType}, Project: p.ID, Memory: rec.Memory}
		line.History, err = x.e.pastVersions(x.ctx, x.caller.Tenant, p, rec, rec.History)
		if err != nil {
			return err
		}
		if err := x.put(memoryType, line); err != nil {
			return err
		}
	}
	return nil
}
