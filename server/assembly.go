package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine"
)

func (s *Server) appendTurn(ctx context.Context, c *call[engine.TurnRequest]) (engine.TurnResponse, error) {
	return s.engine.AppendTurn(ctx, c.caller, c.once, c.path("project"), c.body)
}

func (s *Server) assemble(ctx context.Context, c *call[engine.ContextRequest]) (blob, error) {
	return encoded(s.engine.Assemble(ctx, c.caller, c.path("project"), &c.body, c.raw, c.buffer()))
}

func (s *Server) decision(ctx context.Context, c *call[nothing]) (blob, error) {
	return encoded(s.engine.Decision(ctx, c.caller, c.path("project"), c.path("decision"), c.buffer()))
}

func (s *Server) replay(ctx context.Context, c *call[nothing]) (blob, error) {
	return encoded(s.engine.Replay(ctx, c.caller, c.path("project"), c.path("decision"), c.buffer()))
}

// encoded is the response of a body that the engine has encoded.
func encoded(body []byte, err error) (blob, error) {
	return blob{contentType: jsonType, body: body}, err
}
