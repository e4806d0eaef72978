package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

func (s *Server) listBoardAgents(ctx context.Context, c *call[nothing]) (records.List[board.Agent], error) {
	return s.engine.Boards.ListAgents(ctx, c.caller, c.path("board"), c.page)
}

func (s *Server) getBoardAgent(ctx context.Context, c *call[nothing]) (board.Agent, error) {
	return s.engine.Boards.GetAgent(ctx, c.caller, c.path("board"), c.path("agent"))
}

func (s *Server) putBoardAgent(ctx context.Context, c *call[board.AgentSpec]) (stored[board.Agent], error) {
	a, created, err := s.engine.Boards.PutAgent(ctx, c.caller, c.path("board"), c.path("agent"), c.body)
	return stored[board.Agent]{a, created}, err
}

func (s *Server) deleteBoardAgent(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.Boards.DeleteAgent(ctx, c.caller, c.path("board"), c.path("agent"))
}
