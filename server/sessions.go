package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/summary"
)

func (s *Server) createSession(ctx context.Context, c *call[session.Spec]) (session.Session, error) {
	return s.engine.Sessions.Create(ctx, c.caller, c.once, c.path("project"), c.body)
}

func (s *Server) listSessions(ctx context.Context, c *call[nothing]) (records.List[session.Session], error) {
	return s.engine.Sessions.List(ctx, c.caller, c.path("project"), c.page)
}

func (s *Server) getSession(ctx context.Context, c *call[nothing]) (session.Session, error) {
	return s.engine.Sessions.Get(ctx, c.caller, c.path("project"), c.path("session"))
}

func (s *Server) deleteSession(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.Sessions.Delete(ctx, c.caller, c.path("project"), c.path("session"))
}

func (s *Server) exportSession(ctx context.Context, c *call[nothing]) (session.File, error) {
	return s.engine.Sessions.Export(ctx, c.caller, c.path("project"), c.path("session"))
}

func (s *Server) importSession(ctx context.Context, c *call[session.File]) (session.Session, error) {
	return s.engine.Sessions.Import(ctx, c.caller, c.once, c.path("project"), c.body)
}

// listMessages answers the oldest messages first, unless the query says order=desc. It refuses another order with
// invalid_value.
func (s *Server) listMessages(ctx context.Context, c *call[nothing]) (list records.List[session.Message], err error) {
	newestFirst, err := c.newestFirst(false)
	if err != nil {
		return list, err
	}
	return s.engine.Sessions.ListMessages(ctx, c.caller, c.path("project"), c.path("session"), c.page, newestFirst)
}

func (s *Server) actOnSummary(ctx context.Context, c *call[summary.Action]) (summary.Answer, error) {
	return s.engine.Summaries.ActOn(ctx, c.caller, c.once, c.path("project"), c.path("session"), c.body)
}
