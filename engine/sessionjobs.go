package engine

import "context"

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
