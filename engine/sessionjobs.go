package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sessionUnits are the background work of sessions.
func (e *Engine) sessionUnits() []unit {
	return []unit{
		{func(_ string, now time.Time) store.Range { return dueStaged(now, sweepChunk/2) },
			func(ctx context.Context, tenant string, found []store.Item) (bool, error) {
				return true, e.sweepStaged(ctx, tenant, found)
			}},
		firstJob(kindHeadlessJob.All(), e.sweepHeadless),
	}
}

// sessionDailies are what goes by age of sessions.
func (e *Engine) sessionDailies() []daily {
	return []daily{{"conversations", e.ofEachProject(e.expireConversations)}}
}

// expireConversations removes conversations that are past their project's retention.
func (e *Engine) expireConversations(ctx context.Context, tenant string, p *project, s Settings, at []byte) (int, []byte,
	error) {
	if s.ConversationRetentionDays == nil {
		return 0, nil, nil
	}
	job := &purge{caller: Caller{Tenant: tenant}, project: p.ID, action: "conversations.expire",
		before: daysAgo(e.now(), *s.ConversationRetentionDays)}
	return e.purgeSome(ctx, job, p.Incarnation, at)
}

// sweepHeads turns a chunk of a deleted project's sessions into jobs that sweep them, and tells whether there was any.
func (e *Engine) sweepHeads(ctx context.Context, tenant string, pinc incarnation) (more bool, err error) {
	rng := kindSession.Under(pinc)
	rng.Limit = sweepChunk / 4
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return false, err
	}
	var b store.Batch
	damaged := false
	for _, it := range r.Ranges[0] {
		session := string(it.Key[len(kindSession.Under(pinc).From) : len(it.Key)-1])
		b.Delete = append(b.Delete, it.Key, kindOpenCalls.Key(pinc, session))
		var h head
		if !it.Damaged && json.Unmarshal(it.Value, &h) == nil {
			b.Put = append(b.Put, store.Pair{Key: kindSessionJob.Key(h.Incarnation), Value: pinc[:]})
		} else {
			damaged = true
		}
	}
	if damaged {
		b.Put = append(b.Put, store.Pair{Key: kindHeadlessJob.Key(pinc), Value: []byte{0}})
	}
	return true, e.commit(ctx, tenant, b)
}
