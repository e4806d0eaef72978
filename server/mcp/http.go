package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Response is what a POST is answered with. It implements http.ResponseWriter.
type Response struct {
	Status int
	Body   bytes.Buffer
	header http.Header
}

// Header is the response's header.
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

// ContentType is the type of the body.
func (r *Response) ContentType() string { return r.header.Get("Content-Type") }

// Refused tells whether the body is a text that says why the request is none of the protocol.
func (r *Response) Refused() bool {
	return r.Status >= http.StatusBadRequest && strings.HasPrefix(r.ContentType(), "text/plain")
}

// maxBatch bounds the messages of one body, which older versions of the protocol let be several.
const maxBatch = 64

// refusal says why a body is not worth reading as messages; empty where it is. encoding/json bounds how deeply values
// are nested, the SDK's own reader does not.
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

// Post answers one POST of the protocol's HTTP transport. The server keeps nothing from one to the next: it gives no
// session ids, opens no streams, and any server of several answers any request. Of the header only what begins with
// Mcp- counts. The answer is whole when Post returns; an error is that of ctx.
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
