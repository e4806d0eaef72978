package server

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

func (s *Server) listMessages(ctx context.Context, c *call[nothing]) (list records.List[session.Message], err error) {
	order := c.query("order")
	if order != "" && order != "asc" && order != "desc" {
		return list, invalidQuery("order", "invalid_value", "must be asc or desc")
	}
	return s.engine.Sessions.ListMessages(ctx, c.caller, c.path("project"), c.path("session"), c.page, order == "desc")
}
