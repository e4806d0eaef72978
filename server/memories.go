package server

import (
	"context"
	"net/http"

	"github.com/seed-0906e6bc/mneme/engine"
)

// memoryRoutes are those of memories and of the tools that reach them.
func (s *Server) memoryRoutes() []*route {
	const (
		memories = "/api/v1/projects/{project}/memories"
		memory   = memories + "/{memory}"
		reader   = engine.RoleReader
		agent    = engine.RoleAgent
	)
	return []*route{
		{method: "POST", path: memories, role: agent, status: 201, endpoint: handle(s.storeMemory), stores: true},
		{method: "GET", path: memories, role: reader, status: 200, endpoint: handle(s.listMemories), list: true},
		{method: "POST", path: memories + "/recall", role: agent, status: 200, endpoint: handle(s.recall)},
		{method: "GET", path: memory, role: reader, status: 200, endpoint: handle(s.getMemory)},
		{method: "DELETE", path: memory, role: agent, status: 200, endpoint: handle(s.forgetMemory)},
		{method: "GET", path: memory + "/history", role: reader, status: 200, endpoint: handle(s.memoryHistory), list: true},

		{method: "GET", path: "/api/v1/tools", role: reader, status: 200, endpoint: handle(s.listTools)},
		{method: "POST", path: "/api/v1/projects/{project}/tools/call", role: agent, status: 200, endpoint: handle(s.callTool),
			stores: true},
	}
}

// memoryStored is a memory with the status that tells whether its key is new.
type memoryStored struct {
	engine.Memory
	created bool
}

func (m memoryStored) status() int {
	if m.created {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (s *Server) storeMemory(ctx context.Context, c *call[engine.MemorySpec]) (memoryStored, error) {
	m, created, err := s.engine.StoreMemory(ctx, c.caller, c.once, c.path("project"), c.body)
	return memoryStored{m, created}, err
}

func (s *Server) listMemories(ctx context.Context, c *call[nothing]) (engine.List[engine.Memory], error) {
	return s.engine.ListMemories(ctx, c.caller, c.path("project"), engine.MemoryFilter{
		Category: c.query("category"), Tags: c.queries("tags"), Source: c.query("source"), SessionID: c.query("session_id"),
		Since: c.query("since"), Until: c.query("until"),
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
