package server

import (
	"context"
	"net/http"
)

type status struct {
	Status  string `json:"status"`
	Version string `json:"version"`
}

// health says that the process answers.
func (s *Server) health(context.Context, *call[nothing]) (status, error) {
	return status{"ok", s.version}, nil
}

// ready says that requests can be served and stored. Why not is the operator's to read in the log: the route is open.
func (s *Server) ready(ctx context.Context, c *call[nothing]) (status, error) {
	if err := s.engine.Ready(ctx); err != nil {
		s.log.ErrorContext(ctx, "not ready", "request_id", c.id, "error", err)
		return status{}, refuse(http.StatusServiceUnavailable, "not_ready", "the server cannot serve and store now")
	}
	return status{"ok", s.version}, nil
}

func (s *Server) metricsText(context.Context, *call[nothing]) (blob, error) {
	text, err := s.metrics.exposition()
	return blob{contentType: "text/plain; version=0.0.4; charset=utf-8", body: text}, err
}

// openAPI copies the description: what is answered becomes Fiber's buffer, to be written over by later answers.
func (s *Server) openAPI(_ context.Context, c *call[nothing]) (blob, error) {
	return blob{contentType: jsonType, body: append(c.buffer(), s.description...)}, nil
}
