package memory

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Quota bounds the memories of one tenant; 0 is no bound. Bytes counts content, what memories were before
// included.
type Quota struct {
	Count int
	Bytes int64
}

// How long a count of a tenant's memories holds, and how long it holds to refuse something.
const (
	tallyLife    = time.Minute
	tallyRefuses = time.Second
)

// newTallies is nil where there is no quota: then nothing is counted.
func (svc *Service) newTallies(q Quota) *records.Tallies {
	if q == (Quota{}) {
		return nil
	}
	return &records.Tallies{Count: svc.count, Now: svc.db.Now, Life: tallyLife, Refuses: tallyRefuses}
}

// holdReplacing reserves what putting rec in old's place adds; either may be nil.
func (svc *Service) holdReplacing(ctx context.Context, use *records.Reservation, old, rec *Record) error {
	var change records.Amount
	if rec != nil {
		change.Add(records.Amount{Count: 1, Bytes: rec.weight()})
	}
	if old != nil {
		change.Subtract(records.Amount{Count: 1, Bytes: old.weight()})
	}
	return svc.hold(ctx, use, change)
}

// hold reserves a change of a tenant's memories, where the quota leaves room for it.
func (svc *Service) hold(ctx context.Context, use *records.Reservation, change records.Amount) error {
	return use.Hold(ctx, change, func(kept records.Amount) error {
		switch q := svc.quota; {
		case q.Count > 0 && change.Count > 0 && kept.Count+change.Count > q.Count:
			return fault.Errorf(fault.NoSpace, "quota_exceeded", "the tenant keeps %d memories and may keep %d; forget some first", kept.Count,
				q.Count)
		case q.Bytes > 0 && change.Bytes > 0 && kept.Bytes+change.Bytes > q.Bytes:
			return fault.Errorf(fault.NoSpace, "quota_exceeded",
				"the tenant's memories have %d bytes; %d more would exceed %d; forget some first", kept.Bytes, change.Bytes, q.Bytes)
		}
		return nil
	})
}

// count counts the entries of the time index.
func (svc *Service) count(ctx context.Context, tenant string) (kept records.Amount, err error) {
	for it, err := range svc.db.Scan(ctx, tenant, records.MemoryTime.All()) {
		if err != nil {
			return kept, err
		}
		var entry entry
		if it.Damaged || json.Unmarshal(it.Value, &entry) != nil {
			svc.logDamagedEntry(tenant)
		}
		kept.Add(records.Amount{Count: 1, Bytes: int64(entry.Bytes + entry.Before)})
	}
	return kept, nil
}

func (r *Record) weight() int64 { return int64(len(r.Content) + r.bytesBefore()) }

func (r *Record) bytesBefore() (n int) {
	for _, kept := range r.History {
		n += kept.Bytes
	}
	return n
}
