package engine

import (
	"context"
	"encoding/json"
	"time"

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
func (e *Engine) newMessageTallies(limit int64) *tallies {
	if limit == 0 {
		return nil
	}
	u := &tallies{count: e.countMessages, now: e.now, life: messageTallyLife, refuses: messageTallyLife}
	if !e.alone {
		u.life, u.refuses = sharedTallyLife, sharedTallyRefuses
	}
	return u
}

// checkQuota refuses messages that would be more than the tenant may keep. Requests at the same moment may pass it
// together: the bound is held about, not to the byte.
func (e *Engine) checkQuota(ctx context.Context, c Caller, more int64) error {
	if e.messageUse == nil {
		return nil
	}
	return e.messageUse.check(ctx, c.Tenant, func(kept amount) error {
		if kept.bytes+more <= e.messageQuota {
			return nil
		}
		return errorf(NoSpace, "quota_exceeded",
			"the tenant's messages take about %d bytes and may take %d; this would add %d: delete or purge conversations first",
			kept.bytes, e.messageQuota, more)
	})
}

// countMessages sums up the heads of the tenant's sessions.
func (e *Engine) countMessages(ctx context.Context, tenant string) (n amount, err error) {
	projects, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{kindProject.All()}})
	if err != nil {
		return n, err
	}
	for _, it := range projects.Ranges[0] {
		var p project
		if it.Damaged || json.Unmarshal(it.Value, &p) != nil {
			continue // whoever asks for the project is told
		}
		var after []byte
		for more := true; more; {
			var heads []namedHead
			if heads, after, err = e.readHeads(ctx, tenant, p.Incarnation, after); err != nil {
				return n, err
			}
			for i := range heads {
				n.bytes += int64(heads[i].Bytes)
			}
			more = after != nil
		}
	}
	return n, nil
}
