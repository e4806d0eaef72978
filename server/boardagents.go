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

// inbox lists the notifications of an agent. It fails with invalid_value if unread is neither true nor false.
func (s *Server) inbox(ctx context.Context, c *call[nothing]) (page board.InboxPage, err error) {
	unread, err := c.queryBool("unread")
	if err != nil {
		return page, err
	}
	return s.engine.Boards.Inbox(ctx, c.caller, c.path("board"), c.path("agent"), board.InboxQuery{
		After: c.query("after"), Unread: unread != nil && *unread, Limit: c.page.Limit, Base: c.base()})
}

// streamInbox streams the notifications of an agent that follow Last-Event-ID, or else the query's after.
func (s *Server) streamInbox(ctx context.Context, c *call[nothing]) (out streamed, err error) {
	from := board.InboxFollow{After: c.lastEventID(), Base: c.base()}
	if from.After == "" {
		from.After = c.query("after")
	}
	if from.Since, err = c.queryTime("since"); err != nil {
		return out, err
	}
	feed, err := s.engine.Boards.FollowInbox(ctx, c.caller, c.path("board"), c.path("agent"), from)
	if err != nil {
		return out, err
	}
	return c.sse("notification", feed), nil
}

func (s *Server) ackInbox(ctx context.Context, c *call[board.InboxAck]) (board.InboxAcked, error) {
	return s.engine.Boards.AckInbox(ctx, c.caller, c.once, c.path("board"), c.path("agent"), c.body)
}
