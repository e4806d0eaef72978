package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) storeMemory(ctx context.Context, c *call[engine.MemorySpec]) (stored[engine.Memory], error) {
	m, created, err := s.engine.StoreMemory(ctx, c.caller, c.once, c.path("project"), c.body)
	return stored[engine.Memory]{m, created}, err
}

func (s *Server) listMemories(ctx context.Context, c *call[nothing]) (engine.List[engine.Memory], error) {
	return s.engine.ListMemories(ctx, c.caller, c.path("project"), engine.MemoryFilter{
		Category: c.query("category"), Tags: c.queries("tags"), Source: c.query("source"),
		SessionID: c.query("session_id"),
		Since:     c.query("since"), Until: c.query("until"),
	}, c.page)
}

func (s *Server) getMemory(ctx context.Context, c *call[nothing]) (engine.Memory, error) {
	return s.engine.GetMemory(ctx, c.caller, c.path("project"), c.path("memory"))
}

func (s *Server) forgetMemory(ctx context.Context, c *call[nothing]) (engine.Forgotten, error) {
	return s.engine.ForgetMemory(ctx, c.caller, engine.Once{}, c.path("project"), c.path("memory"))
}

func (s *Server) memoryHistory(ctx context.Context, c *call[nothing]) (engine.List[engine.MemoryVersion], error) {
	return s.engine.MemoryHistory(ctx, c.caller, c.path("project"), c.path("memory"), c.page)
}

func (s *Server) recall(ctx context.Context, c *call[engine.RecallQuery]) (engine.RecallResult, error) {
	return s.engine.Recall(ctx, c.caller, c.path("project"), c.body)
}
