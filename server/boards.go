package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
)

// boardRoutes are the routes of boards, each under two paths: people's and agents'.
func (s *Server) boardRoutes() (out []*route) {
	const (
		reader = engine.RoleReader
		agent  = engine.RoleAgent
	)
	for _, boards := range []string{"/api/v1/boards", "/api/v1/agent/boards"} {
		board := boards + "/{board}"
		member := board + "/agents/{agent}"
		out = append(out,
			&route{method: "GET", path: boards, role: reader, status: 200, endpoint: handle(s.listBoards), list: true},
			&route{method: "GET", path: board, role: reader, status: 200, endpoint: handle(s.getBoard)},
			&route{method: "PUT", path: board, role: agent, status: 200, endpoint: handle(s.putBoard), bodyOptional: true},
			&route{method: "DELETE", path: board, role: agent, status: 204, endpoint: handle(s.deleteBoard)},
			&route{method: "GET", path: board + "/stats", role: reader, status: 200, endpoint: handle(s.boardStats)},
			&route{method: "GET", path: board + "/export", role: reader, status: 200, endpoint: handle(s.exportBoard)},

			&route{method: "POST", path: board + "/memory", role: agent, status: 201, endpoint: handle(s.postEntry), stores: true},
			&route{method: "GET", path: board + "/memory", role: reader, status: 200, endpoint: handle(s.listEntries),
				limited: true},
			&route{method: "DELETE", path: board + "/memory", role: agent, status: 200, endpoint: handle(s.purgeBoard)},
			&route{method: "GET", path: board + "/memory/stream", role: reader, status: 200, endpoint: handle(s.streamEntries)},

			&route{method: "GET", path: board + "/agents", role: reader, status: 200, endpoint: handle(s.listBoardAgents),
				list: true},
			&route{method: "GET", path: member, role: reader, status: 200, endpoint: handle(s.getBoardAgent)},
			&route{method: "PUT", path: member, role: agent, status: 200, endpoint: handle(s.putBoardAgent), bodyOptional: true},
			&route{method: "DELETE", path: member, role: agent, status: 204, endpoint: handle(s.deleteBoardAgent)},
			&route{method: "GET", path: member + "/notifications", role: reader, status: 200, endpoint: handle(s.inbox),
				limited: true},
			&route{method: "GET", path: member + "/notifications/stream", role: reader, status: 200,
				endpoint: handle(s.streamInbox)},
			&route{method: "POST", path: member + "/notifications/ack", role: agent, status: 200, endpoint: handle(s.ackInbox),
				stores: true},
		)
	}
	return out
}

// boardPut is a board with the status that tells whether it is new.
type boardPut struct {
	engine.Board
	created bool
}

func (p boardPut) status() int { return putStatus(p.created) }

// boardAgentPut is an agent of a board with the status that tells whether it is new.
type boardAgentPut struct {
	engine.BoardAgent
	created bool
}

func (p boardAgentPut) status() int { return putStatus(p.created) }

func putStatus(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (s *Server) listBoards(ctx context.Context, c *call[nothing]) (engine.List[engine.Board], error) {
	return s.engine.ListBoards(ctx, c.caller, c.page)
}

func (s *Server) getBoard(ctx context.Context, c *call[nothing]) (engine.Board, error) {
	return s.engine.GetBoard(ctx, c.caller, c.path("board"))
}

func (s *Server) putBoard(ctx context.Context, c *call[engine.BoardSpec]) (boardPut, error) {
	b, created, err := s.engine.PutBoard(ctx, c.caller, c.path("board"), c.body)
	return boardPut{b, created}, err
}

func (s *Server) deleteBoard(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteBoard(ctx, c.caller, c.path("board"))
}

func (s *Server) boardStats(ctx context.Context, c *call[nothing]) (engine.BoardStats, error) {
	return s.engine.BoardStats(ctx, c.caller, c.path("board"))
}

// exportBoard writes one entry a line, oldest first, a few at a time.
func (s *Server) exportBoard(ctx context.Context, c *call[nothing]) (streamed, error) {
	feed, err := s.engine.ExportBoard(ctx, c.caller, c.path("board"))
	if err != nil {
		return streamed{}, err
	}
	next := func() ([]engine.Event, error) {
		ctx, cancel := context.WithTimeout(s.base, s.limits.request)
		defer cancel()
		return feed.Next(ctx)
	}
	return streamed{contentType: ndjsonType, close: feed.Close, run: func(out *stream) error {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		for {
			events, err := next()
			if err != nil || len(events) == 0 {
				return err
			}
			for _, e := range events {
				if err := enc.Encode(e.Data); err != nil {
					return err
				}
			}
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}}, nil
}

func (s *Server) postEntry(ctx context.Context, c *call[engine.BoardPost]) (engine.BoardEntry, error) {
	return s.engine.PostBoardEntry(ctx, c.caller, c.once, c.path("board"), c.body)
}

func (s *Server) listEntries(ctx context.Context, c *call[nothing]) (page engine.BoardPage, err error) {
	q := engine.BoardQuery{Limit: c.page.Limit}
	if q.IsChat, err = c.queryBool("is_chat"); err != nil {
		return page, err
	}
	if q.Since, err = c.queryTime("since"); err != nil {
		return page, err
	}
	if q.Until, err = c.queryTime("until"); err != nil {
		return page, err
	}
	switch order := c.query("order"); order {
	case "", "desc":
	case "asc":
		q.Ascending = true
	default:
		return page, invalidQuery("order", "invalid_value", "must be asc or desc")
	}
	if offset := c.query("offset"); offset != "" {
		if q.Offset, err = strconv.Atoi(offset); err != nil || q.Offset < 0 {
			return page, invalidQuery("offset", "out_of_range", "must be an integer, 0 or more")
		}
	}
	for _, tag := range c.c.Context().QueryArgs().PeekMulti("tags") {
		q.Tags = append(q.Tags, string(tag))
	}
	q.Text = c.query("q")
	return s.engine.ListBoardEntries(ctx, c.caller, c.path("board"), q)
}

func (s *Server) purgeBoard(ctx context.Context, c *call[nothing]) (out engine.BoardPurged, err error) {
	days := c.query("older_than_days")
	if days == "" {
		return out, refuse(http.StatusBadRequest, "older_than_days_missing",
			"say older_than_days=N; older_than_days=0 deletes all")
	}
	var p engine.BoardPurge
	if p.OlderThanDays, err = strconv.Atoi(days); err != nil {
		return out, invalidQuery("older_than_days", "out_of_range", "must be an integer, 0 or more")
	}
	if p.IsChat, err = c.queryBool("is_chat"); err != nil {
		return out, err
	}
	return s.engine.PurgeBoard(ctx, c.caller, c.path("board"), p)
}

func (s *Server) streamEntries(ctx context.Context, c *call[nothing]) (out streamed, err error) {
	from := engine.BoardFollow{After: c.lastEventID()}
	if from.Since, err = c.queryTime("since"); err != nil {
		return out, err
	}
	if from.IsChat, err = c.queryBool("is_chat"); err != nil {
		return out, err
	}
	feed, err := s.engine.FollowBoard(ctx, c.caller, c.path("board"), from)
	if err != nil {
		return out, err
	}
	return c.sse("memory", feed), nil
}

func (s *Server) listBoardAgents(ctx context.Context, c *call[nothing]) (engine.List[engine.BoardAgent], error) {
	return s.engine.ListBoardAgents(ctx, c.caller, c.path("board"), c.page)
}

func (s *Server) getBoardAgent(ctx context.Context, c *call[nothing]) (engine.BoardAgent, error) {
	return s.engine.GetBoardAgent(ctx, c.caller, c.path("board"), c.path("agent"))
}

func (s *Server) putBoardAgent(ctx context.Context, c *call[engine.BoardAgentSpec]) (boardAgentPut, error) {
	a, created, err := s.engine.PutBoardAgent(ctx, c.caller, c.path("board"), c.path("agent"), c.body)
	return boardAgentPut{a, created}, err
}

func (s *Server) deleteBoardAgent(ctx context.Context, c *call[nothing]) (nothing, error) {
	return nothing{}, s.engine.DeleteBoardAgent(ctx, c.caller, c.path("board"), c.path("agent"))
}

func (s *Server) inbox(ctx context.Context, c *call[nothing]) (page engine.InboxPage, err error) {
	unread, err := c.queryBool("unread")
	if err != nil {
		return page, err
	}
	return s.engine.Inbox(ctx, c.caller, c.path("board"), c.path("agent"), engine.InboxQuery{After: c.query("after"),
		Unread: unread != nil && *unread, Limit: c.page.Limit, Base: c.base()})
}

func (s *Server) streamInbox(ctx context.Context, c *call[nothing]) (out streamed, err error) {
	from := engine.InboxFollow{After: c.lastEventID(), Base: c.base()}
	if from.After == "" {
		from.After = c.query("after")
	}
	if from.Since, err = c.queryTime("since"); err != nil {
		return out, err
	}
	feed, err := s.engine.FollowInbox(ctx, c.caller, c.path("board"), c.path("agent"), from)
	if err != nil {
		return out, err
	}
	return c.sse("notification", feed), nil
}

func (s *Server) ackInbox(ctx context.Context, c *call[engine.InboxAck]) (engine.InboxAcked, error) {
	return s.engine.AckInbox(ctx, c.caller, c.once, c.path("board"), c.path("agent"), c.body)
}

// lastEventID is the last event that a reader who comes back has had.
func (x *exchange) lastEventID() string { return string(x.c.Request().Header.Peek("Last-Event-ID")) }

// queryBool reads true or false; nil where it is left out or null.
func (x *exchange) queryBool(name string) (*bool, error) {
	switch text := x.query(name); text {
	case "", "null":
		return nil, nil
	case "true", "false":
		yes := text == "true"
		return &yes, nil
	}
	return nil, invalidQuery(name, "invalid_value", "must be true, false or null")
}

// queryTime reads an RFC 3339 time, in UTC where it has no zone; nil where it is left out.
func (x *exchange) queryTime(name string) (*time.Time, error) {
	text := x.query(name)
	if text == "" {
		return nil, nil
	}
	text = strings.Replace(text, " ", "+", 1) // the plus of a zone that was not escaped
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			t = t.UTC()
			return &t, nil
		}
	}
	return nil, invalidQuery(name, "invalid_time", "must be an RFC 3339 time, for example 2026-03-05T12:00:00Z")
}

// base is the URL by which the caller reaches this server. A caller can only mislead itself with it.
func (x *exchange) base() string {
	h := &x.c.Request().Header
	first := func(name string) string {
		value, _, _ := strings.Cut(string(h.Peek(name)), ",")
		return strings.TrimSpace(value)
	}
	scheme, host := "http", first("X-Forwarded-Host")
	if first("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	if host == "" {
		host = string(x.c.Request().Host())
	}
	return scheme + "://" + host
}
