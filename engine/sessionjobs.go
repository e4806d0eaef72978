package engine

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sessionUnits are the background work of sessions.
func (e *Engine) sessionUnits() []unit {
	return []unit{
		{func(_ string, now time.Time) store.Range { return dueImports(now, sweepChunk/2) },
			func(ctx context.Context, tenant string, found []store.Item) (bool, error) {
				return true, e.sweepImports(ctx, tenant, found)
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
