package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) listBoards(ctx context.Context, c *call[nothing]) (engine.List[engine.Board], error) {
	return s.engine.ListBoards(ctx, c.caller, c.page)
}

func (s *Server) getBoard(ctx context.Context, c *call[nothing]) (engine.Board, error) {
	return s.engine.GetBoard(ctx, c.caller, c.path("board"))
}

func (s *Server) putBoard(ctx context.Context, c *call[engine.BoardSpec]) (stored[engine.Board], error) {
	b, created, err := s.engine.PutBoard(ctx, c.caller, c.path("board"), c.body)
	return stored[engine.Board]{b, created}, err
}

func (s *Server) deleteBoard(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteBoard(ctx, c.caller, c.path("board"))
}

func (s *Server) boardStats(ctx context.Context, c *call[nothing]) (engine.BoardStats, error) {
	return s.engine.BoardStats(ctx, c.caller, c.path("board"))
}
