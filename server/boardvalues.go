package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

func (s *Server) listBoardValues(ctx context.Context, c *call[nothing]) (records.List[board.Value], error) {
	return s.engine.Boards.ListValues(ctx, c.caller, c.path("board"), c.page)
}

func (s *Server) getBoardValue(ctx context.Context, c *call[nothing]) (board.Value, error) {
	return s.engine.Boards.GetValue(ctx, c.caller, c.path("board"), c.path("value"))
}

func (s *Server) putBoardValue(ctx context.Context, c *call[board.ValueSpec]) (stored[board.Value], error) {
	v, created, err := s.engine.Boards.PutValue(ctx, c.caller, c.path("board"), c.path("value"), c.body)
	return stored[board.Value]{v, created}, err
}

func (s *Server) deleteBoardValue(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.Boards.DeleteValue(ctx, c.caller, c.path("board"), c.path("value"))
}
