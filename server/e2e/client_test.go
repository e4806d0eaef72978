package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// client sends requests to one server with one key.
type client struct {
	t    testing.TB
	url  string
	key  string
	http *http.Client
	log  *tail // the server's output, for failures
}

// as returns the same client with another key.
func (c client) as(key string) client { c.key = key; return c }

// in returns the same client, reporting to a subtest.
func (c client) in(t testing.TB) client { c.t = t; return c }

// reply is one complete answer.
type reply struct {
	t      testing.TB
	what   string // method and path, for messages
	status int
	header http.Header
	body   []byte
}

// do sends a request; the body is JSON-encoded unless it is bytes or nil. Headers are pairs of name and value.
func (c client) do(method, path string, body any, headers ...string) reply {
	c.t.Helper()
	r, err := c.try(method, path, body, headers...)
	if err != nil {
		c.t.Fatalf("%s %s: %v\nthe server's last lines:\n%s", method, path, err, c.log)
	}
	return r
}

// try is do for servers that may be killed during the request.
func (c client) try(method, path string, body any, headers ...string) (reply, error) {
	var payload io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		payload = bytes.NewReader(b)
	default:
		payload = bytes.NewReader(encodeJSON(c.t, b))
	}
	req, err := http.NewRequest(method, c.url+path, payload)
	if err != nil {
		return reply{}, err
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return reply{c.t, method + " " + path, res.StatusCode, res.Header, data}, err
}

func (c client) get(path string) reply            { c.t.Helper(); return c.do("GET", path, nil) }
func (c client) post(path string, body any) reply { c.t.Helper(); return c.do("POST", path, body) }

// want fails the test unless the status is one of those given.
func (r reply) want(statuses ...int) reply {
	r.t.Helper()
	if !slices.Contains(statuses, r.status) {
		r.t.Fatalf("%s: status %d, want %d: %s", r.what, r.status, statuses, clip(string(r.body), 1500))
	}
	return r
}

// into decodes the body.
func (r reply) into(v any) {
	r.t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		r.t.Fatalf("%s: %v in %s", r.what, err, clip(string(r.body), 500))
	}
}

// problem is an RFC 9457 error.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	RequestID string `json:"request_id"`
	Errors    []struct {
		Index  *int   `json:"index"`
		Field  string `json:"field"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	} `json:"errors"`
	Needed  *int   `json:"needed"`
	Allowed *int   `json:"allowed"`
	Unit    string `json:"unit"`
}

// problem fails the test unless the answer is a complete problem with this status.
func (r reply) problem(status int) problem {
	r.t.Helper()
	r.want(status)
	var p problem
	r.into(&p)
	if kind := r.header.Get("Content-Type"); !strings.HasPrefix(kind, "application/problem+json") {
		r.t.Errorf("%s: content type %q of an error", r.what, kind)
	}
	if p.Status != status || p.Code == "" || p.Title == "" || p.Type == "" || p.RequestID == "" {
		r.t.Errorf("%s: incomplete problem %s", r.what, r.body)
	}
	return p
}

// wantCode is problem with the code checked.
func (r reply) wantCode(status int, code string) problem {
	r.t.Helper()
	p := r.problem(status)
	if p.Code != code {
		r.t.Errorf("%s: code %q, want %q: %s", r.what, p.Code, code, p.Detail)
	}
	return p
}

// encodeJSON encodes v and leaves the bytes of raw messages in it unchanged.
func encodeJSON(t testing.TB, v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// clip shortens a text for an error message.
func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// object is a JSON object under construction.
type object = map[string]any
