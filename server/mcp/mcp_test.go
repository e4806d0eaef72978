package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
)

// one returns a server with one tool; log gets what clients are not told.
func one() (s *Server, log *bytes.Buffer) {
	log = new(bytes.Buffer)
	schema := json.RawMessage(`{"type":"object"}`)
	return New(DescribeAll([]tools.Tool{{Name: "tool", Title: "A tool", InputSchema: schema, OutputSchema: schema}}),
		"v1",
		slog.New(slog.NewTextHandler(log, nil))), log
}

const callTool = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","arguments":{"a":"<1>"}}}`

// rpcAnswer is a response as a client reads it.
type rpcAnswer struct {
	Result struct {
		Content           []struct{ Type, Text string }
		StructuredContent map[string]any
		IsError           bool
	}
	Error *struct {
		Code    int
		Message string
		Data    struct {
			Code   string
			Errors []fault.FieldError
		}
	}
}

func (s *Server) called(t *testing.T, call Call) (a rpcAnswer) {
	t.Helper()
	r, err := s.Post(t.Context(), http.Header{}, []byte(callTool), call)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != http.StatusOK || r.ContentType() != "application/json" {
		t.Fatalf("%d %s %s", r.Status, r.ContentType(), &r.Body)
	}
	if err := json.Unmarshal(r.Body.Bytes(), &a); err != nil {
		t.Fatalf("%v in %s", err, &r.Body)
	}
	return a
}

func TestCallsArriveAsTheyWereMade(t *testing.T) {
	var got tools.Call
	s, _ := one()
	a := s.called(t, func(_ context.Context, call tools.Call) (tools.Result, error) {
		got = call
		return tools.Result{Content: "told", Structured: map[string]int{"n": 1}}, nil
	})
	if got.Name != "tool" || string(got.Arguments) != `{"a":"<1>"}` {
		t.Errorf("%+v", got)
	}
	if a.Error != nil || a.Result.IsError || a.Result.Content[0].Text != "told" ||
		a.Result.StructuredContent["n"] != 1.0 {
		t.Errorf("%+v", a)
	}
}

// Errors that a model can correct are results; all others are protocol errors, and internal texts only go to the log.
func TestErrors(t *testing.T) {
	fields := []fault.FieldError{{Field: "f", Code: "c", Detail: "d"}}
	for name, test := range map[string]struct {
		err     error
		rpc     int
		code    string
		message string
		logged  bool
	}{
		"invalid": {&fault.Error{Kind: fault.Invalid, Code: "odd", Detail: "is odd", Fields: fields}, -32602, "odd",
			"is odd", false},
		"not found": {&fault.Error{Kind: fault.NotFound, Code: "not_found", Detail: "no project"}, -32603, "not_found",
			"no project", false},
		"internal": {&fault.Error{Kind: fault.Internal, Code: "x", Detail: "secret"}, -32603, "internal",
			"its log says more", true},
		"unknown": {errors.New("secret"), -32603, "internal", "its log says more", true},
		"late":    {context.DeadlineExceeded, -32603, "deadline_exceeded", "try again", false},
		"panic":   {nil, -32603, "internal", "its log says more", true},
	} {
		s, log := one()
		a := s.called(t, func(context.Context, tools.Call) (tools.Result, error) {
			if test.err == nil {
				panic("secret")
			}
			return tools.Result{}, test.err
		})
		if a.Error == nil || a.Error.Code != test.rpc || a.Error.Data.Code != test.code ||
			!strings.Contains(a.Error.Message, test.message) || strings.Contains(a.Error.Message, "secret") {
			t.Errorf("%s: %+v", name, a.Error)
		}
		if strings.Contains(log.String(), "secret") != test.logged {
			t.Errorf("%s: log %s", name, log)
		}
	}
	s, _ := one()
	a := s.called(t, func(context.Context, tools.Call) (tools.Result, error) {
		return tools.Result{Content: "do better", Structured: tools.Failure{}, IsError: true}, nil
	})
	if a.Error != nil || !a.Result.IsError || a.Result.Content[0].Text != "do better" ||
		a.Result.StructuredContent != nil {
		t.Errorf("%+v", a)
	}
}

// A request that times out gets an error, and the call has ended by then.
func TestPostEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := false
	s, _ := one()
	_, err := s.Post(ctx, http.Header{}, []byte(callTool), func(context.Context, tools.Call) (tools.Result,
		error) {
		cancel()
		<-ctx.Done()
		ended = true
		return tools.Result{}, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || !ended {
		t.Errorf("%v, ended %v", err, ended)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	s, _ := one()
	for n, status := range map[int]int{1: 200, maxBatch: 200, maxBatch + 1: 400} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%d,"method":"ping"},`, i)
		}
		r, err := s.Post(t.Context(), http.Header{}, []byte("["+strings.TrimSuffix(b.String(), ",")+"]"), nil)
		if err != nil || r.Status != status || r.Refused() != (status == 400) {
			t.Errorf("%d: %v %+v", n, err, r)
		}
	}
}

// The errors of a server, or of something else at its address, are explained, and each call has its own
// Idempotency-Key.
func TestRemote(t *testing.T) {
	var seen []string
	status, body := http.StatusOK, `{}` // Open lists a memory, to see that the key reaches the project
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer mk_x":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/api/v1/tools":
			_, _ = w.Write([]byte(`{"tools":[{"name":"tool","inputSchema":{"type":"object"}}]}`))
		case r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`{}`))
		default:
			seen = append(seen, r.URL.EscapedPath(), r.Header.Get("Idempotency-Key"))
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}))
	defer server.Close()
	tools, call, err := Remote{URL: server.URL + "/", Key: "mk_x", Project: "a b"}.Open(t.Context())
	if err != nil || len(tools) != 1 {
		t.Fatalf("%v %+v", err, tools)
	}
	seen = nil
	s := New(tools, "v1", slog.New(slog.DiscardHandler))
	for _, test := range []struct {
		status     int
		body, want string
	}{
		{200, `{"content":"told","structured":{"n":1},"is_error":false}`, ""},
		{404, `{"code":"not_found","detail":"no project","request_id":"r1"}`, "no project"},
		{422, `{"code":"odd","detail":"is odd","errors":[{"field":"f","code":"c","detail":"d"}]}`, "is odd"},
		{503, `{"code":"internal","detail":"look there","request_id":"r1"}`, "look there (request_id r1)"},
		{502, `<html>Bad Gateway</html>`, "status 502"},
		{200, `<html>`, "Mneme failed"},
	} {
		status, body = test.status, test.body
		a := s.called(t, call)
		if test.want == "" && (a.Error != nil || a.Result.Content[0].Text != "told" ||
			a.Result.StructuredContent["n"] != 1.0) ||
			test.want != "" && (a.Error == nil || !strings.Contains(a.Error.Message, test.want)) {
			t.Errorf("%d %s: %+v %+v", test.status, test.body, a.Result, a.Error)
		}
	}
	if seen[0] != "/api/v1/projects/a%20b/tools/call" || seen[1] == "" || seen[1] == seen[3] {
		t.Errorf("%q", seen)
	}
	if _, _, err := (Remote{URL: server.URL, Key: "mk_y", Project: "p"}).Open(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "401") {
		t.Errorf("another key: %v", err)
	}
}

func BenchmarkPost(b *testing.B) {
	s := New(DescribeAll(tools.All()), "v1", slog.New(slog.DiscardHandler))
	body := []byte(strings.Replace(callTool, `"tool"`, `"memory_recall"`, 1))
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.Post(b.Context(), http.Header{}, body, func(context.Context, tools.Call) (tools.Result,
			error) {
			return tools.Result{Content: "told"}, nil
		})
		if err != nil || r.Status != 200 {
			b.Fatal(err, r)
		}
	}
}
