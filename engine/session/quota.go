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

// How long a count of a tenant's messages holds before the heads are summed up again. Where other processes store and
// remove too, it holds for a shorter time, and shorter still before something is refused.
const (
	tallyLife          = time.Hour
	sharedTallyLife    = 5 * time.Minute
	sharedTallyRefuses = 10 * time.Second
)

// newTallies is nil where nothing bounds the bytes of messages: then nothing is counted.
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

// checkQuota answers quota_exceeded where so many more bytes of messages would be more than the tenant may keep.
// Requests at the same moment may pass it together: the bound is held about, not to the byte.
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

// countMessages sums up the heads of the tenant's sessions.
func (svc *Service) countMessages(ctx context.Context, tenant string) (n records.Amount, err error) {
	for it, err := range svc.db.Scan(ctx, tenant, records.Project.All()) {
		if err != nil {
			return n, err
		}
		var p project.Record
		if it.Damaged || json.Unmarshal(it.Value, &p) != nil {
			continue // whoever asks for the project is told
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
