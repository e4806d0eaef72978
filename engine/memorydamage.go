package engine

import (
	"encoding/json"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

const memoryDamaged = "memory_damaged"

func errDamagedMemory(key string) error {
	return errorf(Conflict, memoryDamaged, "what is stored of the memory %q fails its checksum; forget it, then store it again",
		key)
}

func isDamagedMemory(err error) bool {
	fault, ok := errors.AsType[*Error](err)
	return ok && fault.Code == memoryDamaged
}

// deleteDamagedMemory collects the writes that remove what can be found of a memory whose record cannot be read. The
// index knows by itself which words it held.
func (t *tx) deleteDamagedMemory(p *project, key string) error {
	if err := t.deleteDocument(p.Incarnation, key); err != nil {
		return err
	}
	t.delete(kindMemory.Key(p.Incarnation, key))
	versions := kindMemoryVersion.Under2(p.Incarnation, key)
	versions.KeysOnly = true
	r, err := t.e.store.Read(t.ctx, t.tenant, store.Query{Ranges: []store.Range{versions}})
	if err != nil {
		return err
	}
	for _, it := range r.Ranges[0] {
		t.delete(it.Key)
	}
	for it, err := range t.e.scan(t.ctx, t.tenant, kindMemoryTime.Under(p.Incarnation)) {
		if err != nil {
			return err
		}
		if _, named := splitMemoryTime(it.Key); named != key {
			continue
		}
		t.delete(it.Key)
		var entry memoryEntry
		if !it.Damaged && json.Unmarshal(it.Value, &entry) == nil && entry.Expires != 0 {
			t.delete(kindExpiry.Key(timeOf(entry.Expires), kindMemory.Key(p.Incarnation, key)))
		}
	}
	return nil
}
