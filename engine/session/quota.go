package session

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// How long a count of a tenant's messages is used before the heads are added up again. The time is shorter if other
// processes write to the same store, and shorter still before a request is refused.
const (
	tallyLife          = time.Hour
	sharedTallyLife    = 5 * time.Minute
	sharedTallyRefuses = 10 * time.Second
)

// newTallies returns nil if there is no quota: then nothing is counted.
func (svc *Service) newTallies() *records.Tallies {
	if svc.messageQuota == 0 {
		return nil
	}
	u := &records.Tallies{Count: svc.countMessages, Now: svc.db.Now, Life: tallyLife, Refuses: tallyLife}
	if !svc.db.Alone {
		u.Life, u.Refuses = sharedTallyLife, sharedTallyRefuses
	}
	return u
}

// checkQuota returns quota_exceeded if this many more bytes of messages would exceed the tenant's quota. Concurrent
// requests may pass together, so the limit is approximate.
func (svc *Service) checkQuota(ctx context.Context, c ident.Caller, more int64) error {
	if svc.MessageUse == nil {
		return nil
	}
	return svc.MessageUse.Check(ctx, c.Tenant, func(kept records.Amount) error {
		if kept.Bytes+more <= svc.messageQuota {
			return nil
		}
		return fault.Errorf(fault.NoSpace, "quota_exceeded",
			"the tenant's messages take about %d bytes and may take %d; this would add %d: "+
				"delete or purge conversations first", kept.Bytes, svc.messageQuota, more)
	})
}

// countMessages adds up the heads of the tenant's sessions.
func (svc *Service) countMessages(ctx context.Context, tenant string) (n records.Amount, err error) {
	for it, err := range svc.db.Scan(ctx, tenant, records.Project.All()) {
		if err != nil {
			return n, err
		}
		var p project.Record
		if it.Damaged || json.Unmarshal(it.Value, &p) != nil {
			continue // requests for the project report it
		}
		for h, err := range svc.Heads(ctx, tenant, p.Incarnation, "") {
			if err != nil {
				return n, err
			}
			n.Bytes += int64(h.Bytes)
		}
	}
	return n, nil
}
