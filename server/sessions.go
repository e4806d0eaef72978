package server

import (
	"context"
	"strconv"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/insight/catalogue"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/window/summary"
)

func (s *Server) createSession(ctx context.Context, c *call[session.Spec]) (session.Session, error) {
	return s.engine.Sessions.Create(ctx, c.caller, c.once, c.path("project"), c.body)
}

// listSessions lists sessions by id, unless the query says otherwise. It fails with invalid_time for a malformed
// time.
func (s *Server) listSessions(ctx context.Context, c *call[nothing]) (list records.List[catalogue.Row], err error) {
	q := catalogue.Query{Sort: c.query("sort"), Agent: c.query("agent"), Kind: c.query("kind"), Text: c.query("q"),
		Namespace: c.queries("namespace")}
	if q.Since, err = c.queryTime("since"); err != nil {
		return list, err
	}
	for _, some := range c.queries("fields") {
		q.Fields = append(q.Fields, strings.FieldsFunc(some, func(r rune) bool { return r == ',' })...)
	}
	return s.engine.Catalogue.List(ctx, c.caller, c.path("project"), q, c.page)
}

func (s *Server) getSession(ctx context.Context, c *call[nothing]) (session.Session, error) {
	return s.engine.Sessions.Get(ctx, c.caller, c.path("project"), c.path("session"))
}

// streamSession streams the events of a session that follow Last-Event-ID, or else from now on.
func (s *Server) streamSession(ctx context.Context, c *call[nothing]) (streamed, error) {
	from, err := s.engine.Tail.Follow(ctx, c.caller, c.path("project"), c.path("session"), c.lastEventID())
	if err != nil {
		return streamed{}, err
	}
	return c.sse("", from), nil
}

func (s *Server) deleteSession(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.Sessions.Delete(ctx, c.caller, c.path("project"), c.path("session"))
}

func (s *Server) exportSession(ctx context.Context, c *call[nothing]) (session.File, error) {
	return s.engine.Sessions.Export(ctx, c.caller, c.path("project"), c.path("session"))
}

func (s *Server) importSession(ctx context.Context, c *call[session.File]) (session.Imported, error) {
	return s.engine.Sessions.Import(ctx, c.caller, c.once, c.path("project"), c.body)
}

// listMessages lists the oldest messages first, unless the query says order=desc. It fails with invalid_value for any
// other order.
func (s *Server) listMessages(ctx context.Context, c *call[nothing]) (list records.List[session.Message], err error) {
	newestFirst, err := c.newestFirst(false)
	if err != nil {
		return list, err
	}
	order := session.MessageOrder{Descending: newestFirst}
	if order.Superseded, err = c.truth("superseded"); err != nil {
		return list, err
	}
	return s.engine.Sessions.ListMessages(ctx, c.caller, c.path("project"), c.path("session"), c.page, order)
}

func (s *Server) getMessage(ctx context.Context, c *call[nothing]) (session.Message, error) {
	return s.engine.Sessions.Message(ctx, c.caller, c.path("project"), c.path("session"), c.path("message"))
}

func (s *Server) getTurn(ctx context.Context, c *call[nothing]) (list records.List[session.Message], err error) {
	turn, err := strconv.ParseUint(c.path("turn"), 10, 32)
	if err != nil {
		return list, fault.Errorf(fault.NotFound, "not_found", "session %q has no turn %q", c.path("session"), c.path("turn"))
	}
	return s.engine.Sessions.Turn(ctx, c.caller, c.path("project"), c.path("session"), uint32(turn), c.page)
}

func (s *Server) forkSession(ctx context.Context, c *call[session.ForkRequest]) (session.Session, error) {
	return s.engine.Sessions.Fork(ctx, c.caller, c.once, c.path("project"), c.path("session"), c.body)
}

func (s *Server) rewindSession(ctx context.Context, c *call[session.RewindRequest]) (session.Rewound, error) {
	return s.engine.Sessions.Rewind(ctx, c.caller, c.once, c.path("project"), c.path("session"), c.body)
}

func (s *Server) eraseSession(ctx context.Context, c *call[nothing]) (session.Erased, error) {
	return s.engine.Sessions.Erase(ctx, c.caller, c.path("project"), c.path("session"))
}

func (s *Server) actOnSummary(ctx context.Context, c *call[summary.Action]) (summary.Answer, error) {
	return s.engine.Summaries.ActOn(ctx, c.caller, c.once, c.path("project"), c.path("session"), c.body)
}
