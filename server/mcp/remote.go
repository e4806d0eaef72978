package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

const (
	// remoteTime is the timeout of one request. The server's own timeout is shorter, and its error says why.
	remoteTime = time.Minute
	// maxRemoteBody is the maximum size of a response, in bytes.
	maxRemoteBody = 16 << 20
)

// Remote calls a running server's HTTP API with a key, for one project.
type Remote struct {
	URL       string // without a path, such as http://127.0.0.1:7700
	Key       string
	Project   string
	Namespace []string     // that Open tries; calls name their own
	Session   string       // likewise
	Client    *http.Client // nil: a new client
}

// Open checks that the server responds, knows the key, and lets the key use the project and the namespace. It returns that server's
// tools and a Call that runs them there.
func (r Remote) Open(ctx context.Context) ([]*Tool, Call, error) {
	base, err := url.Parse(r.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, nil, fmt.Errorf("%q is not the URL of a server, such as http://127.0.0.1:7700", r.URL)
	}
	r.URL = strings.TrimSuffix(r.URL, "/")
	if r.Client == nil {
		r.Client = &http.Client{Timeout: remoteTime}
	}
	var list struct {
		Tools []*Tool `json:"tools"`
	}
	if err := r.send(ctx, http.MethodGet, "/api/v1/tools?format=mcp", nil, &list); err != nil {
		return nil, nil, fmt.Errorf("asking %s for its tools: %w", r.URL, err)
	}
	first := tools.Call{Name: tools.NameList, Arguments: json.RawMessage(`{"limit":1}`), SessionID: r.Session, MemoryNamespace: r.Namespace}
	if _, err := r.call(ctx, first); err != nil {
		return nil, nil, fmt.Errorf("asking %s for the project's memories: %w", r.URL, err)
	}
	return list.Tools, r.call, nil
}

func (r Remote) project() string { return "/api/v1/projects/" + url.PathEscape(r.Project) }

func (r Remote) call(ctx context.Context, call tools.Call) (tools.Result, error) {
	var out struct {
		Content    string          `json:"content"`
		Structured json.RawMessage `json:"structured"`
		IsError    bool            `json:"is_error"`
	}
	body, err := json.Marshal(call)
	if err != nil {
		return tools.Result{}, fmt.Errorf("encoding a call: %w", err)
	}
	err = r.send(ctx, http.MethodPost, r.project()+"/tools/call", body, &out)
	return tools.Result{Content: out.Content, Structured: out.Structured, IsError: out.IsError}, err
}

// send sends a request and decodes the response. If the server refuses, the error is a *fault.Error in the server's
// own words; if it does not respond, the error has the code server_unreachable.
func (r Remote) send(ctx context.Context, method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, r.URL+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+r.Key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", rand.Text()) // lets net/http retry if a connection was closed
	}
	res, err := r.Client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return unreachable(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxRemoteBody))
	if err != nil {
		return unreachable(err)
	}
	if res.StatusCode != http.StatusOK {
		return problem(res.StatusCode, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s %s: the response is not from Mneme: %w", method, path, err)
	}
	return nil
}

func unreachable(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err // without the method and URL
	}
	return &fault.Error{Kind: fault.Unavailable, Code: "server_unreachable",
		Detail: fmt.Sprintf("the server does not answer: %v", err)}
}

// problem returns the error that the server's response to a refused request describes.
func problem(status int, body []byte) error {
	var p struct {
		Code      string             `json:"code"`
		Detail    string             `json:"detail"`
		RequestID string             `json:"request_id"`
		Errors    []fault.FieldError `json:"errors"`
	}
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return &fault.Error{Kind: fault.Unavailable, Code: "server_unreachable",
			Detail: fmt.Sprintf("the server that answers there with status %d is not Mneme", status)}
	}
	e := &fault.Error{Kind: fault.Unavailable, Code: p.Code, Detail: p.Detail, Fields: p.Errors}
	switch {
	case status == http.StatusUnprocessableEntity, status == http.StatusRequestEntityTooLarge:
		e.Kind = fault.Invalid
	case status >= http.StatusInternalServerError:
		e.Detail += " (request_id " + p.RequestID + ")"
	}
	return e
}
