package memory

import (
	"context"
	"encoding/json"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Expire removes a memory that is past its time, whole and in one commit, with the entry that brought it up.
func (svc *Service) Expire(ctx context.Context, tenant string, due []byte) error {
	pinc, key, _ := SplitKey(records.SplitExpiry(due))
	p := &project.Record{Incarnation: pinc}
	_, err := records.Update(ctx, svc.db, access.Caller{Tenant: tenant}, access.Once{}, func(t *records.Tx) (struct{}, error) {
		rec, err := svc.memory(t, p, key)
		if isDamaged(err) {
			t.Delete(due)
			return struct{}{}, svc.deleteDamaged(t, p, key)
		}
		if err != nil {
			return struct{}{}, err
		}
		if rec == nil || !rec.Expired(t.Now) {
			t.Delete(due)
			return struct{}{}, nil
		}
		return struct{}{}, svc.deleteMemory(t, p, rec)
	})
	return err
}

// Sweep removes a chunk of a deleted project's memories and tells whether there was any.
func (svc *Service) Sweep(ctx context.Context, tenant string, pinc ident.Incarnation) (more bool, err error) {
	rng := records.MemoryTime.Under(pinc)
	rng.Limit = records.SweepChunk / 4
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return false, err
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		b.Delete = append(b.Delete, it.Key)
		var entry entry
		if !it.Damaged && json.Unmarshal(it.Value, &entry) == nil && entry.Expires != 0 {
			_, key := splitTime(it.Key)
			b.Delete = append(b.Delete, records.Expiry.Key(records.TimeOf(entry.Expires), records.Memory.Key(pinc, key)))
		}
	}
	if len(b.Delete) > 0 {
		return true, svc.db.Commit(ctx, tenant, b)
	}
	for _, rng := range []store.Range{records.Memory.Under(pinc), records.MemoryVersion.Under(pinc)} {
		if more, err := svc.db.DeleteRange(ctx, tenant, rng); more || err != nil {
			return more, err
		}
	}
	return false, nil
}
