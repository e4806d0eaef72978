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
	// AsOf is given while the system's clock is too far ahead to be believed: the time by which things are old.
	AsOf *time.Time `json:"as_of,omitempty"`
}

// health says that the process answers.
func (s *Server) health(context.Context, *call[nothing]) (status, error) {
	return status{"ok", s.version, nil}, nil
}

// ready says that requests can be served and stored, else store_damaged, too_many_open_files or not_ready. Any other
// reason is in the log alone, because anybody may ask.
func (s *Server) ready(ctx context.Context, c *call[nothing]) (status, error) {
	if err := s.engine.Ready(ctx); err != nil {
		s.log.ErrorContext(ctx, "not ready", "request_id", c.id, "error", err)
		known, ok := errors.AsType[*fault.Error](err)
		if ok && (known.Code == "store_damaged" || known.Code == "too_many_open_files") {
			return status{}, known
		}
		return status{}, refuse(http.StatusServiceUnavailable, "not_ready", "the server cannot serve and store now")
	}
	return status{"ok", s.version, s.engine.AsOf()}, nil
}

func (s *Server) metricsText(context.Context, *call[nothing]) (blob, error) {
	text, err := s.metrics.exposition()
	return blob{contentType: "text/plain; version=0.0.4; charset=utf-8", body: text}, err
}

// openAPI answers a copy of the description, because Fiber writes later answers into the buffer of this one.
func (s *Server) openAPI(_ context.Context, c *call[nothing]) (blob, error) {
	return blob{contentType: jsonType, body: append(c.buffer(), s.description...)}, nil
}

// errorCodes answers the page of all error codes, to whose lines the type of a problem links.
func (s *Server) errorCodes(_ context.Context, c *call[nothing]) (blob, error) {
	return blob{contentType: "text/html; charset=utf-8", body: append(c.buffer(), s.errorPage...)}, nil
}

func (s *Server) runRetention(ctx context.Context, c *call[nothing]) (jobs.RetentionRun, error) {
	return s.engine.Jobs.RunRetention(ctx, c.caller)
}
