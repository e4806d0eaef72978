package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

func TestSuccessStatuses(t *testing.T) {
	t.Parallel()
	s := start(t, echoing)
	for _, c := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"POST", turns, `{"session_id":"s","messages":[{"role":"system","content":"x"}]}`, 201,
			`{"session_id":"s","turn":0,"revision":0,"tokens":0,"messages":[],"skipped":[*`},
		{"POST", turns, `{"session_id":"s","messages":[{"role":"user","content":"x"}]}`, 201,
			`{"session_id":"s","turn":1,*`},
		{"POST", contextPath, ``, 200, `{"echo":null}`},
		{"POST", contextPath, ` {"explain" : true}`, 200, `{"echo": {"explain" : true}}`},
		{"PUT", "/api/v1/projects/old", ``, 201, `{"id":"old","name":"","created_at":"*`},
		{"PUT", "/api/v1/projects/a%40b%3a1", `{"name":"<&>"}`, 201, `{"id":"a@b:1","name":"<&>","created_at":"*`},
		{"PUT", "/api/v1/projects/a@b:1", `{"name":"n"}`, 200, `{"id":"a@b:1","name":"n","created_at":"*`},
		{"DELETE", "/api/v1/projects/old", ``, 204, ``},
		{"GET", "/api/v1/tenants", ``, 403, `*`},
		{"GET", "/api/v1/policies/tool-pair-trim", ``, 200, `{"name":"tool-pair-trim",*`},
		{"HEAD", "/api/v1/projects", ``, 200, ``},
		{"GET", "/healthz", ``, 200, `{"status":"ok","version":"test"}` + "\n"},
	} {
		a := s.do(c.method, c.path, c.body)
		begin, any := strings.CutSuffix(c.answer, "*")
		if a.status != c.status || !any && string(a.body) != c.answer || !strings.HasPrefix(string(a.body), begin) {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
}

// Every kind of error has its status, and texts that were not written for clients are not sent.
func TestErrorKinds(t *testing.T) {
	t.Parallel()
	var fail error
	s := start(t, appending(func(context.Context, *call[session.TurnRequest]) error { return fail }))
	one := 1
	for kind, status := range map[fault.Kind]int{
		fault.BadRequest: 400, fault.Unauthorized: 401, fault.Forbidden: 403, fault.NotFound: 404,
		fault.Conflict: 409, fault.Gone: 410, fault.Precondition: 412, fault.TooLarge: 413, fault.Invalid: 422,
		fault.Unavailable: 503, fault.NoSpace: 507,
	} {
		fields := []fault.FieldError{{Index: &one, Field: "messages[1].role", Code: "unknown_role",
			Detail: "no such role"}}
		fail = fmt.Errorf("wrapped: %w", &fault.Error{Kind: kind, Code: "some_code", Detail: "the words",
			Fields: fields})
		p := s.do("POST", turns, `{}`).problem(t)
		if p.Status != status || p.Code != "some_code" || p.Detail != "the words" ||
			!reflect.DeepEqual(p.Errors, fields) ||
			p.Needed != nil || p.Allowed != nil {
			t.Errorf("kind %d: %+v", kind, p)
		}
	}

	fail = &fault.Error{Kind: fault.Invalid, Code: "budget_too_small", Detail: "d", Needed: 900, Allowed: 0,
		Unit: "tokens"}
	if p := s.do("POST", turns, `{}`).problem(t); *p.Needed != 900 || *p.Allowed != 0 || p.Unit != "tokens" {
		t.Errorf("%+v", p)
	}
	for _, fail = range []error{
		errors.New("secret words"),
		&fault.Error{Kind: fault.Internal, Code: "secret", Detail: "secret words"},
	} {
		a := s.do("POST", turns, `{}`)
		if p := a.problem(t); p.Status != 500 || p.Code != "internal" || strings.Contains(string(a.body), "secret") {
			t.Errorf("%+v", p)
		}
	}
	if n := strings.Count(s.log.String(), "secret words"); n != 2 {
		t.Errorf("%d of 2 internal errors are in the log:\n%s", n, s.log)
	}
}

func TestPanicIsAProblemAndTheServerLives(t *testing.T) {
	t.Parallel()
	s := start(t, appending(func(context.Context, *call[session.TurnRequest]) error { panic("boom") }))
	a := s.do("POST", turns, `{}`, "X-Request-Id", "the-panic")
	if p := a.problem(t); p.Status != 500 || p.Code != "internal" || strings.Contains(string(a.body), "boom") {
		t.Errorf("%+v", p)
	}
	if log := s.log.String(); !strings.Contains(log, "panic: boom") || !strings.Contains(log, "the-panic") {
		t.Errorf("log:\n%s", log)
	}
	if a := s.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

func TestRoutesThatAreNone(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/nowhere", 404, "not_found", ""},
		{"POST", turns + "/", 404, "not_found", ""},
		{"GET", "/API/v1/projects", 404, "not_found", ""},
		{"GET", "/api/v1/projects//turns", 404, "not_found", ""},
		{"GET", "/api/v1/projects/a/../b", 404, "not_found", ""},
		{"GET", turns, 405, "method_not_allowed", "POST"},
		{"PATCH", "/healthz", 405, "method_not_allowed", "GET, HEAD"},
		{"OPTIONS", "/healthz", 405, "method_not_allowed", "GET, HEAD"},
		{"QUERY", "/healthz", 405, "method_not_allowed", "GET, HEAD"},
		{"BREW", "/healthz", 501, "method_unknown", ""},
	} {
		a := s.do(c.method, c.path, "")
		p := a.problem(t)
		if p.Status != c.status || p.Code != c.code || a.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d %s, Allow %q", c.method, c.path, p.Status, p.Code, a.header.Get("Allow"))
		}
	}
}

func TestBodiesAreStrict(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct {
		body, contentType string
		status            int
		code, detail      string
	}{
		{`{`, "application/json", 400, "invalid_json",
			"the body is not JSON: line 1, column 1 (byte 0): unexpected end of JSON input"},
		{`{} {}`, "application/json", 400, "invalid_json",
			"the body is not JSON: line 1, column 4 (byte 3): invalid character '{' after top-level value"},
		{"{\"agent\":\"\xff\"}", "application/json", 400, "invalid_json",
			"the body is not JSON: line 1, column 11 (byte 10): invalid UTF-8"},
		{`{"sesion":1,"Agent":2,"messages":[{"unknown":1}]}`, "application/json", 422, "unknown_field",
			`sesion: unknown field; Agent: unknown field; did you mean ` + "`agent`?"},
		{`{"agent":1}`, "application/json; charset=utf-8", 422, "wrong_type", "agent: must be a string"},
		{`{"agent":"a","agent":"b"}`, "", 422, "duplicate_field", "agent: field given twice"},
		{`{}`, "text/plain", 415, "unsupported_media_type", "send the body as application/json"},
		{``, "application/json", 400, "body_missing", "this route needs a JSON body"},
	} {
		p := s.do("POST", turns, c.body, "Content-Type", c.contentType).problem(t)
		if p.Status != c.status || p.Code != c.code || p.Detail != c.detail {
			t.Errorf("%s: %d %s: %s", c.body, p.Status, p.Code, p.Detail)
		}
	}
	p := s.do("POST", contextPath,
		`{"budget":{"max_token":1},"pipeline":[{"policy":"p"},{"name":"q"}],"x":1}`).problem(t)
	var fields []string
	for _, f := range p.Errors {
		fields = append(fields, f.Field+" "+f.Code)
	}
	want := "budget.max_token unknown_field, pipeline[1].name unknown_field, x unknown_field"
	if got := strings.Join(fields, ", "); got != want {
		t.Error(got)
	}
	if p := s.do("POST", turns, `{}`, "Content-Encoding", "gzip").problem(t); p.Status != 415 {
		t.Errorf("%+v", p)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	var got records.Page
	s := start(t, answering("listProjects", func(_ context.Context, c *call[nothing]) (nothing, error) {
		got = c.page
		return nothing{}, nil
	}))
	for query, want := range map[string]records.Page{
		"":                          {Limit: 50},
		"?limit=1":                  {Limit: 1},
		"?limit=1000&cursor=a%2Bb=": {Limit: 1000, Cursor: "a+b="},
	} {
		if a := s.do("GET", "/api/v1/projects"+query, ""); a.status != 200 || got != want {
			t.Errorf("%s: %d, %+v", query, a.status, got)
		}
	}
	for _, limit := range []string{"0", "-1", "1001", "ten", "1e2", "99999999999999999999"} {
		p := s.do("GET", "/api/v1/projects?limit="+limit, "").problem(t)
		if p.Status != 422 || len(p.Errors) != 1 || p.Errors[0].Field != "limit" {
			t.Errorf("limit %s: %+v", limit, p)
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	var got ident.Once
	s := start(t, appending(func(_ context.Context, c *call[session.TurnRequest]) error {
		got = c.once
		return nil
	}))
	const body = `{"messages":[]}`
	s.do("POST", turns, body, "Idempotency-Key", "k1")
	want := ident.Once{Key: "k1", Body: sha256.Sum256([]byte("POST\n" + turns + "\n\n" + body)),
		Seal: s.key("tenant_admin")}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.do("POST", turns, body)
	if got != (ident.Once{}) {
		t.Errorf("without a key: %+v", got)
	}
	if a := s.do("POST", turns, body, "Idempotency-Key", strings.Repeat("k", 255)); a.status != 201 {
		t.Errorf("255 bytes: %d", a.status)
	}
	p := s.do("POST", turns, body, "Idempotency-Key", strings.Repeat("k", 256)).problem(t)
	if p.Status != 422 || p.Errors[0].Field != "Idempotency-Key" {
		t.Errorf("256 bytes: %+v", p)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	s := start(t, answering("assemble", func(ctx context.Context, _ *call[nothing]) (nothing, error) {
		<-ctx.Done()
		return nothing{}, fmt.Errorf("reading: %w", ctx.Err())
	}), limited(func(l *limits) { l.request = 20 * time.Millisecond }))
	a := s.do("POST", contextPath, "{}")
	if p := a.problem(t); p.Status != 503 || p.Code != "deadline_exceeded" || a.header.Get("Retry-After") == "" {
		t.Errorf("%+v", p)
	}
}

// turnCall is what a handler of turns passes to the engine.
type turnCall struct {
	caller  ident.Caller
	once    ident.Once
	project string
	req     session.TurnRequest
}

// The server reuses strings and buffers between requests: nothing of one may show in another.
func TestRequestsAtOnceKeepTheirOwn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var kept []turnCall // not copied, so that what the server failed to copy changes
	s := start(t, echoing, appending(func(_ context.Context, c *call[session.TurnRequest]) error {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, turnCall{c.caller, c.once, c.path("project"), c.body})
		return nil
	}))
	var wg sync.WaitGroup
	const clients, rounds = 8, 40
	for i := range clients {
		wg.Go(func() {
			for j := range rounds {
				id := fmt.Sprintf("%d-%d", i, j)
				filler := strings.Repeat(id+" ", 1+j*j*10) // from a few bytes to a hundred kilobytes
				message, _ := json.Marshal(map[string]string{"content": filler})
				a := s.do("POST", "/api/v1/projects/p"+id+"/turns",
					`{"session_id":"s`+id+`","messages":[`+string(message)+`]}`,
					"Authorization", "Bearer agent/t"+id, "Idempotency-Key", "k"+id, "X-Request-Id", "r"+id)
				if a.status != 201 || !bytes.Contains(a.body, []byte(`"s`+id+`"`)) ||
					a.header.Get("X-Request-Id") != "r"+id {
					t.Errorf("%s: %d %s", id, a.status, a.body)
				}
				a = s.do("POST", contextPath, `{"system":`+string(message)[len(`{"content":`):])
				if want := `{"echo":{"system":` + string(message)[len(`{"content":`):] + `}`; string(a.body) != want {
					t.Errorf("%s: a window of another request", id)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, c := range kept {
		id := strings.TrimPrefix(c.req.SessionID, "s")
		seen[id] = true
		if c.caller.Tenant != "t"+id || c.project != "p"+id || c.once.Key != "k"+id ||
			c.once.Seal != s.key("agent/t"+id) ||
			!bytes.Contains(c.req.Messages[0], []byte(id+" ")) {
			t.Errorf("%s became tenant %s, project %s, key %s", id, c.caller.Tenant, c.project, c.once.Key)
		}
	}
	if len(seen) != clients*rounds {
		t.Errorf("%d different requests arrived, want %d", len(seen), clients*rounds)
	}
}
