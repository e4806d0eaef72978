package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) listBoardAgents(ctx context.Context, c *call[nothing]) (engine.List[engine.BoardAgent], error) {
	return s.engine.ListBoardAgents(ctx, c.caller, c.path("board"), c.page)
}

func (s *Server) getBoardAgent(ctx context.Context, c *call[nothing]) (engine.BoardAgent, error) {
	return s.engine.GetBoardAgent(ctx, c.caller, c.path("board"), c.path("agent"))
}

func (s *Server) putBoardAgent(ctx context.Context, c *call[engine.BoardAgentSpec]) (stored[engine.BoardAgent], error) {
	a, created, err := s.engine.PutBoardAgent(ctx, c.caller, c.path("board"), c.path("agent"), c.body)
	return stored[engine.BoardAgent]{a, created}, err
}

func (s *Server) deleteBoardAgent(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteBoardAgent(ctx, c.caller, c.path("board"), c.path("agent"))
}
