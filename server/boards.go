package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

func (s *Server) listBoards(ctx context.Context, c *call[nothing]) (records.List[board.Board], error) {
	return s.engine.Boards.List(ctx, c.caller, c.page)
}

func (s *Server) getBoard(ctx context.Context, c *call[nothing]) (board.Board, error) {
	return s.engine.Boards.Get(ctx, c.caller, c.path("board"))
}

func (s *Server) putBoard(ctx context.Context, c *call[board.Spec]) (stored[board.Board], error) {
	b, created, err := s.engine.Boards.Put(ctx, c.caller, c.path("board"), c.body)
	return stored[board.Board]{b, created}, err
}

func (s *Server) deleteBoard(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.Boards.Delete(ctx, c.caller, c.path("board"))
}

func (s *Server) boardStats(ctx context.Context, c *call[nothing]) (board.Stats, error) {
	return s.engine.Boards.Stats(ctx, c.caller, c.path("board"))
}
