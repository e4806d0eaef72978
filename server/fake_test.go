package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
)

// fakeEngine stands in where a test is about the edge alone. Calls that a test does not expect panic on the nil Engine.
// A key reads ROLE or ROLE/TENANT.
type fakeEngine struct {
	Engine
	append   func(ctx context.Context, c turnCall) error
	assemble func(ctx context.Context, dst []byte) ([]byte, error)
	list     func(c engine.Caller, page engine.Page) error
	notReady error
}

// turnCall is what AppendTurn was given.
type turnCall struct {
	caller  engine.Caller
	once    engine.Once
	project string
	req     engine.TurnRequest
}

func (f *fakeEngine) Authenticate(_ context.Context, token string) (engine.Caller, error) {
	role, tenant, _ := strings.Cut(token, "/")
	if tenant == "" {
		tenant = "default"
	}
	if role == "root" {
		return engine.Caller{Role: engine.RoleRoot, KeyID: "root"}, nil
	}
	r, ok := engine.ParseRole(role)
	if !ok {
		return engine.Caller{}, &engine.Error{Kind: engine.Unauthorized, Code: "unknown_key", Detail: "unknown"}
	}
	return engine.Caller{Role: r, Tenant: tenant, KeyID: "key_" + role}, nil
}

func (f *fakeEngine) Tools() []engine.Tool { return (*engine.Engine)(nil).Tools() } // they are always the same

func (f *fakeEngine) Ready(context.Context) error { return f.notReady }

func (f *fakeEngine) TenantExists(_ context.Context, id string) (bool, error) {
	return id == "default" || id == "other", nil
}

func (f *fakeEngine) ListTenants(context.Context, engine.Page) (engine.List[engine.Tenant], error) {
	return engine.List[engine.Tenant]{Data: []engine.Tenant{}}, nil
}

func (f *fakeEngine) ListProjects(_ context.Context, c engine.Caller, page engine.Page) (
	engine.List[engine.Project], error,
) {
	var err error
	if f.list != nil {
		err = f.list(c, page)
	}
	return engine.List[engine.Project]{Data: []engine.Project{}}, err
}

func (f *fakeEngine) PutProject(_ context.Context, _ engine.Caller, id string, spec engine.ProjectSpec) (
	engine.Project, bool, error,
) {
	return engine.Project{ID: id, Name: spec.Name}, id == "new", nil
}

func (f *fakeEngine) DeleteProject(context.Context, engine.Caller, string) error { return nil }

func (f *fakeEngine) AppendTurn(
	ctx context.Context, c engine.Caller, once engine.Once, project string, req engine.TurnRequest,
) (engine.TurnResponse, error) {
	if f.append != nil {
		if err := f.append(ctx, turnCall{c, once, project, req}); err != nil {
			return engine.TurnResponse{}, err
		}
	}
	return engine.TurnResponse{SessionID: req.SessionID, Turn: uint32(len(req.Messages))}, nil
}

func (f *fakeEngine) Assemble(
	ctx context.Context, _ engine.Caller, _ string, _ *engine.ContextRequest, raw, dst []byte,
) ([]byte, error) {
	if f.assemble != nil {
		return f.assemble(ctx, dst)
	}
	return append(append(append(dst, `{"echo":`...), orNull(raw)...), '}'), nil
}

func orNull(raw []byte) []byte {
	if len(raw) == 0 {
		return []byte("null")
	}
	return raw
}

const (
	turns       = "/api/v1/projects/default/turns"
	contextPath = "/api/v1/projects/default/context"
)

// site is a server that runs for one test.
type site struct {
	t    testing.TB
	addr string
	s    *Server
	log  *syncBuffer
	stop func() error // ends Serve and answers its error; also run by the test's end
}

func start(t testing.TB, e Engine, change ...func(*limits)) *site {
	t.Helper()
	return startWith(t, Options{Engine: e}, change...)
}

func startWith(t testing.TB, o Options, change ...func(*limits)) *site {
	t.Helper()
	l := defaultLimits()
	for _, c := range change {
		c(&l)
	}
	log := new(syncBuffer)
	o.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Version, o.Random = "test", strings.NewReader("12345678")
	s, err := newServer(o, l)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	stop := sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() { _ = stop() })
	return &site{t: t, addr: ln.Addr().String(), s: s, log: log, stop: stop}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	close  bool // the server ends the connection after it
}

// problem decodes the answer, which must be one, and checks what holds for each.
func (a answer) problem(t testing.TB) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("status %d: %v in %q", a.status, err, a.body)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if p.Status != a.status || p.Title != http.StatusText(a.status) || p.Type != "about:blank" || p.Code == "" ||
		p.Detail == "" || p.RequestID == "" || p.RequestID != a.header.Get("X-Request-Id") {
		t.Errorf("status %d, X-Request-Id %q: %+v", a.status, a.header.Get("X-Request-Id"), p)
	}
	return p
}

// do sends a request; headers come as name, value pairs.
func (s *site) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addr+path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer tenant_admin")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	return s.send(req)
}

func (s *site) send(req *http.Request) answer {
	s.t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return read(s.t, res)
}

func read(t testing.TB, res *http.Response) answer {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, body, res.Close}
}

// dial opens a connection on which a test speaks HTTP by hand. Nothing on it takes longer than ten seconds.
func (s *site) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	return conn
}
