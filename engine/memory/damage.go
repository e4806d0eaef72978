package memory

import (
	"encoding/json"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

const Damaged = "memory_damaged"

func errDamaged(key string) error {
	return fault.Errorf(fault.Conflict, Damaged, "what is stored of the memory %q fails its checksum; forget it, then store it again",
		key)
}

func isDamaged(err error) bool {
	fault, ok := errors.AsType[*fault.Error](err)
	return ok && fault.Code == Damaged
}

// deleteDamaged collects the writes that remove what can be found of a memory whose record cannot be read. The
// index knows by itself which words it held.
func (svc *Service) deleteDamaged(t *records.Tx, p *project.Record, key string) error {
	if err := svc.index.DeleteDocument(t, p.Incarnation, key); err != nil {
		return err
	}
	t.Delete(records.Memory.Key(p.Incarnation, key))
	versions := records.MemoryVersion.Under2(p.Incarnation, key)
	versions.KeysOnly = true
	r, err := svc.db.Store.Read(t.Ctx, t.Tenant, store.Query{Ranges: []store.Range{versions}})
	if err != nil {
		return err
	}
	for _, it := range r.Ranges[0] {
		t.Delete(it.Key)
	}
	for it, err := range svc.db.Scan(t.Ctx, t.Tenant, records.MemoryTime.Under(p.Incarnation)) {
		if err != nil {
			return err
		}
		if _, named := splitTime(it.Key); named != key {
			continue
		}
		t.Delete(it.Key)
		var entry entry
		if !it.Damaged && json.Unmarshal(it.Value, &entry) == nil && entry.Expires != 0 {
			t.Delete(records.Expiry.Key(records.TimeOf(entry.Expires), records.Memory.Key(p.Incarnation, key)))
		}
	}
	return nil
}
