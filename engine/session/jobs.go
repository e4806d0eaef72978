package session

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Units are the background work of sessions.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{
		{Due: func(_ string, now time.Time) store.Range { return records.DueStaged(now, records.SweepChunk/2) },
			Do: func(ctx context.Context, tenant string, found []store.Item) (bool, error) {
				return true, svc.db.SweepStaged(ctx, tenant, found)
			}},
		jobs.FirstJob(records.HeadlessJob.All(), svc.sweepHeadless),
	}
}

// Dailies are what goes by age of sessions.
func (svc *Service) Dailies() []jobs.Daily {
	return []jobs.Daily{{Name: "conversations", Piece: svc.projects.OfEach(svc.expireConversations)}}
}

// expireConversations removes conversations that are past their project's retention.
func (svc *Service) expireConversations(ctx context.Context, tenant string, p *project.Record, s project.Settings, at []byte) (int, []byte,
	error) {
	if s.ConversationRetentionDays == nil {
		return 0, nil, nil
	}
	job := &purge{caller: access.Caller{Tenant: tenant}, project: p.ID, action: "conversations.expire",
		before: daysAgo(svc.db.Now(), *s.ConversationRetentionDays)}
	return svc.purgeSome(ctx, job, p.Incarnation, at)
}

// SweepHeads turns a chunk of a deleted project's sessions into jobs that sweep them, and tells whether there was any.
func (svc *Service) SweepHeads(ctx context.Context, tenant string, pinc ident.Incarnation) (more bool, err error) {
	rng := records.Session.Under(pinc)
	rng.Limit = records.SweepChunk / 4
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return false, err
	}
	var b store.Batch
	damaged := false
	for _, it := range r.Ranges[0] {
		session := string(it.Key[len(records.Session.Under(pinc).From) : len(it.Key)-1])
		b.Delete = append(b.Delete, it.Key, records.OpenCalls.Key(pinc, session))
		var h Head
		if !it.Damaged && json.Unmarshal(it.Value, &h) == nil {
			b.Put = append(b.Put, store.Pair{Key: records.SessionJob.Key(h.Incarnation), Value: pinc[:]})
		} else {
			damaged = true
		}
	}
	if damaged {
		b.Put = append(b.Put, store.Pair{Key: records.HeadlessJob.Key(pinc), Value: []byte{0}})
	}
	return true, svc.db.Commit(ctx, tenant, b)
}
