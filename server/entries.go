package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/seed-0906e6bc/mneme/engine/board"
)

func (s *Server) postEntry(ctx context.Context, c *call[board.Post]) (board.Entry, error) {
	return s.engine.Boards.PostEntry(ctx, c.caller, c.once, c.path("board"), c.body)
}

// listEntries returns the newest entries first, unless the query says order=asc. It fails with invalid_value,
// invalid_time or out_of_range for malformed parameters.
func (s *Server) listEntries(ctx context.Context, c *call[nothing]) (page board.Page, err error) {
	q := board.Query{Limit: c.page.Limit}
	q.Tags, q.Text = c.queries("tags"), c.query("q")
	if q.IsChat, err = c.queryBool("is_chat"); err != nil {
		return page, err
	}
	if q.Since, err = c.queryTime("since"); err != nil {
		return page, err
	}
	if q.Until, err = c.queryTime("until"); err != nil {
		return page, err
	}
	newestFirst, err := c.newestFirst(true)
	if err != nil {
		return page, err
	}
	q.Ascending = !newestFirst
	if offset := c.query("offset"); offset != "" {
		if q.Offset, err = strconv.Atoi(offset); err != nil || q.Offset < 0 {
			return page, invalidQuery("offset", "out_of_range", "must be an integer, 0 or more")
		}
	}
	return s.engine.Boards.ListEntries(ctx, c.caller, c.path("board"), q)
}

// purgeBoard deletes old entries. It fails with older_than_days_missing if the query does not say how old, so that
// nobody deletes all entries by accident.
func (s *Server) purgeBoard(ctx context.Context, c *call[nothing]) (out board.Purged, err error) {
	days := c.query("older_than_days")
	if days == "" {
		return out, refuse(http.StatusBadRequest, "older_than_days_missing",
			"add older_than_days=N; older_than_days=0 deletes all")
	}
	var p board.Purge
	if p.OlderThanDays, err = strconv.Atoi(days); err != nil {
		return out, invalidQuery("older_than_days", "out_of_range", "must be an integer, 0 or more")
	}
	if p.IsChat, err = c.queryBool("is_chat"); err != nil {
		return out, err
	}
	return s.engine.Boards.Purge(ctx, c.caller, c.path("board"), p)
}

// streamEntries streams the entries of a board that follow Last-Event-ID, or else the query's since.
func (s *Server) streamEntries(ctx context.Context, c *call[nothing]) (out streamed, err error) {
	from := board.Follow{After: c.lastEventID()}
	if from.Since, err = c.queryTime("since"); err != nil {
		return out, err
	}
	if from.IsChat, err = c.queryBool("is_chat"); err != nil {
		return out, err
	}
	feed, err := s.engine.Boards.Follow(ctx, c.caller, c.path("board"), from)
	if err != nil {
		return out, err
	}
	return c.sse("memory", feed), nil
}

// exportBoard writes all entries, oldest first, one per line. It reads a few at a time from the store.
func (s *Server) exportBoard(ctx context.Context, c *call[nothing]) (streamed, error) {
	feed, err := s.engine.Boards.Export(ctx, c.caller, c.path("board"))
	if err != nil {
		return streamed{}, err
	}
	return c.entryLines(feed), nil
}

// entryLines streams the events of a feed that ends, one per line. It reads the store in its sender's turn.
func (x *exchange) entryLines(feed board.Feed) streamed {
	s, sender := x.s, x.sender()
	next := func() ([]board.Event, error) {
		place, err := s.places.Hold(s.base, sender)
		if err != nil {
			return nil, err
		}
		defer place.Leave()
		ctx, cancel := context.WithTimeout(place.With(s.base), s.limits.request)
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
	}}
}
