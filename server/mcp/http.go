package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Response is the response to a POST. It implements http.ResponseWriter for the SDK.
type Response struct {
	Status int
	Body   bytes.Buffer
	header http.Header
}

// Header returns the response headers.
func (r *Response) Header() http.Header { return r.header }

// WriteHeader keeps the first status.
func (r *Response) WriteHeader(status int) {
	if r.Status == 0 {
		r.Status = status
	}
}

// Write appends to the body.
func (r *Response) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.Body.Write(p)
}

// ContentType returns the media type of the body.
func (r *Response) ContentType() string { return r.header.Get("Content-Type") }

// Refused reports whether the body is a text that says how the request violates the protocol.
func (r *Response) Refused() bool {
	return r.Status >= http.StatusBadRequest && strings.HasPrefix(r.ContentType(), "text/plain")
}

// maxBatch is the maximum number of messages in one body. Older versions of the protocol allow several.
const maxBatch = 64

// refusal returns the reason to refuse a body before the SDK reads it, or "". The SDK's reader does not limit the
// nesting of values; encoding/json does.
func refusal(body []byte) string {
	if !json.Valid(body) {
		return "the body is not JSON, or is nested too deeply"
	}
	var batch []json.RawMessage
	if json.Unmarshal(body, &batch) == nil && len(batch) > maxBatch {
		return fmt.Sprintf("the body has %d messages; send at most %d together", len(batch), maxBatch)
	}
	return ""
}

// Post handles one POST of the protocol's HTTP transport. The server is stateless: it issues no session ids and opens
// no streams, so any of several servers can handle any request. Only headers whose names begin with Mcp- are used.
// The response is complete when Post returns. An error is that of ctx.
func (s *Server) Post(ctx context.Context, header http.Header, body []byte, call Call) (*Response, error) {
	w := &Response{header: http.Header{}}
	if why := refusal(body); why != "" {
		http.Error(w, why, http.StatusBadRequest)
		return w, nil
	}
	r, err := http.NewRequestWithContext(with(ctx, call), http.MethodPost, "/mcp", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	for name, values := range header {
		if strings.HasPrefix(name, "Mcp-") {
			r.Header[name] = values
		}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")

	s.http.ServeHTTP(w, r)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusOK)
	return w, nil
}
