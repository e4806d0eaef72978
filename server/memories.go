package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

func (s *Server) storeMemory(ctx context.Context, c *call[memory.Spec]) (stored[memory.Memory], error) {
	m, created, err := s.engine.Memories.Store(ctx, c.caller, c.once, c.path("project"), c.body)
	return stored[memory.Memory]{m, created}, err
}

func (s *Server) listMemories(ctx context.Context, c *call[nothing]) (records.List[memory.Memory], error) {
	return s.engine.Memories.List(ctx, c.caller, c.path("project"), memory.Filter{
		Category: c.query("category"), Tags: c.queries("tags"), Source: c.query("source"),
		SessionID: c.query("session_id"),
		Since:     c.query("since"), Until: c.query("until"),
	}, c.page)
}

func (s *Server) getMemory(ctx context.Context, c *call[nothing]) (memory.Memory, error) {
	return s.engine.Memories.Get(ctx, c.caller, c.path("project"), c.path("memory"))
}

func (s *Server) forgetMemory(ctx context.Context, c *call[nothing]) (memory.Forgotten, error) {
	return s.engine.Memories.Forget(ctx, c.caller, access.Once{}, c.path("project"), c.path("memory"))
}

func (s *Server) memoryHistory(ctx context.Context, c *call[nothing]) (records.List[memory.Version], error) {
	return s.engine.Memories.History(ctx, c.caller, c.path("project"), c.path("memory"), c.page)
}

func (s *Server) recall(ctx context.Context, c *call[recall.Query]) (recall.Result, error) {
	return s.engine.Recall.Recall(ctx, c.caller, c.path("project"), c.body)
}
