package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
)

type status struct {
	Status  string `json:"status"`
	Version string `json:"version"`
	// AsOf is the time by which ages are computed. It is set only while the system clock is implausibly far ahead.
	AsOf *time.Time `json:"as_of,omitempty"`
}

// health reports that the process is running.
func (s *Server) health(context.Context, *call[nothing]) (status, error) {
	return status{"ok", s.version, nil}, nil
}

// ready reports whether requests can be served and stored. It fails with store_damaged, too_many_open_files or
// not_ready. Other reasons only appear in the log, because the route needs no key.
func (s *Server) ready(ctx context.Context, c *call[nothing]) (status, error) {
	if err := s.engine.Ready(ctx); err != nil {
		s.log.ErrorContext(ctx, "not ready", "request_id", c.id, "error", err)
		known, ok := errors.AsType[*fault.Error](err)
		if ok && (known.Code == "store_damaged" || known.Code == "too_many_open_files") {
			return status{}, known
		}
		return status{}, refuse(http.StatusServiceUnavailable, "not_ready", "the server cannot serve requests and store data at present")
	}
	return status{"ok", s.version, s.engine.AsOf()}, nil
}

func (s *Server) metricsText(context.Context, *call[nothing]) (blob, error) {
	text, err := s.metrics.exposition()
	return blob{contentType: "text/plain; version=0.0.4; charset=utf-8", body: text}, err
}

// openAPI returns a copy of the description, because Fiber reuses the response buffer.
func (s *Server) openAPI(_ context.Context, c *call[nothing]) (blob, error) {
	return blob{contentType: jsonType, body: append(c.buffer(), s.described.text...)}, nil
}

// openAPIOfProxy returns a copy of the description of the proxy and MCP.
func (s *Server) openAPIOfProxy(_ context.Context, c *call[nothing]) (blob, error) {
	return blob{contentType: jsonType, body: append(c.buffer(), s.described.foreign...)}, nil
}

// errorCodes returns the page of all error codes. The type of a problem links to a line of it.
func (s *Server) errorCodes(_ context.Context, c *call[nothing]) (blob, error) {
	return blob{contentType: "text/html; charset=utf-8", body: append(c.buffer(), s.errorPage...)}, nil
}

func (s *Server) runRetention(ctx context.Context, c *call[nothing]) (jobs.RetentionRun, error) {
	return s.engine.Jobs.RunRetention(ctx, c.caller)
}
