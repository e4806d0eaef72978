package session

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// How long a count of a tenant's messages holds before the heads are summed up again. Where other processes store and remove
// too, it holds that much shorter, and shorter still to refuse something.
const (
	messageTallyLife   = time.Hour
	sharedTallyLife    = 5 * time.Minute
	sharedTallyRefuses = 10 * time.Second
)

// newMessageTallies is nil where nothing bounds the bytes of messages: then nothing is counted.
func (svc *Service) newMessageTallies(limit int64) *records.Tallies {
	if limit == 0 {
		return nil
	}
	u := &records.Tallies{Count: svc.countMessages, Now: svc.db.Now, Life: messageTallyLife, Refuses: messageTallyLife}
	if !svc.db.Alone {
		u.Life, u.Refuses = sharedTallyLife, sharedTallyRefuses
	}
	return u
}

// checkQuota refuses messages that would be more than the tenant may keep. Requests at the same moment may pass it
// together: the bound is held about, not to the byte.
func (svc *Service) checkQuota(ctx context.Context, c access.Caller, more int64) error {
	if svc.MessageUse == nil {
		return nil
	}
	return svc.MessageUse.Check(ctx, c.Tenant, func(kept records.Amount) error {
		if kept.Bytes+more <= svc.messageQuota {
			return nil
		}
		return fault.Errorf(fault.NoSpace, "quota_exceeded",
			"the tenant's messages take about %d bytes and may take %d; this would add %d: delete or purge conversations first",
			kept.Bytes, svc.messageQuota, more)
	})
}

// countMessages sums up the heads of the tenant's sessions.
func (svc *Service) countMessages(ctx context.Context, tenant string) (n records.Amount, err error) {
	projects, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{records.Project.All()}})
	if err != nil {
		return n, err
	}
	for _, it := range projects.Ranges[0] {
		var p project.Record
		if it.Damaged || json.Unmarshal(it.Value, &p) != nil {
			continue // whoever asks for the project is told
		}
		var after []byte
		for more := true; more; {
			var heads []NamedHead
			if heads, after, err = svc.ReadHeads(ctx, tenant, p.Incarnation, after); err != nil {
				return n, err
			}
			for i := range heads {
				n.Bytes += int64(heads[i].Bytes)
			}
			more = after != nil
		}
	}
	return n, nil
}
