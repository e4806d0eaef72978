package memory

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Quota limits the memories of one tenant; 0 means no limit. Bytes counts content, including that of earlier versions.
type Quota struct {
	Count int
	Bytes int64
}

// How long a count of a tenant's memories is used, and how long it is used to reject something.
const (
	tallyLife    = time.Minute
	tallyRefuses = time.Second
)

// newTallies returns nil if there is no quota, so that nothing is counted.
func (svc *Service) newTallies() *records.Tallies {
	if svc.quota == (Quota{}) {
		return nil
	}
	return &records.Tallies{Count: svc.count, Now: svc.db.Now, Life: tallyLife, Refuses: tallyRefuses}
}

// replacing returns what replacing old by rec adds; either may be nil.
func replacing(old, rec *Record) (change records.Amount) {
	if rec != nil {
		change.Add(rec.entry().weight())
	}
	if old != nil {
		change.Subtract(old.entry().weight())
	}
	return change
}

// hold reserves a change of a tenant's memories. It returns quota_exceeded if the change exceeds the quota.
func (svc *Service) hold(ctx context.Context, room *records.Reservation, change records.Amount) error {
	return room.Hold(ctx, change, func(kept records.Amount) error {
		switch q := svc.quota; {
		case q.Count > 0 && change.Count > 0 && kept.Count+change.Count > q.Count:
			return fault.Errorf(fault.NoSpace, "quota_exceeded",
				"the tenant has %d memories, and the limit is %d; forget some first", kept.Count, q.Count)
		case q.Bytes > 0 && change.Bytes > 0 && kept.Bytes+change.Bytes > q.Bytes:
			return fault.Errorf(fault.NoSpace, "quota_exceeded",
				"the tenant's memories have %d bytes; %d more would exceed %d; forget some first", kept.Bytes,
				change.Bytes, q.Bytes)
		}
		return nil
	})
}

// count counts a tenant's memories by the entries of the index by time.
func (svc *Service) count(ctx context.Context, tenant string) (kept records.Amount, err error) {
	for it, err := range svc.db.Scan(ctx, tenant, records.MemoryTime.All()) {
		if err != nil {
			return kept, err
		}
		e, whole := entryOf(it)
		if !whole {
			svc.logDamagedEntry(tenant)
		}
		kept.Add(e.weight())
	}
	return kept, nil
}
