package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
	"github.com/seed-0906e6bc/mneme/engine/tenant/provider"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// setup configures a site. Tests change it before the server starts.
type setup struct {
	Options
	limits    limits
	store     store.Store
	upstreams provider.Operator
	handlers  map[string]endpoint // replace the server's own, by operationId
	before    func(*Server)       // called before it serves
	listener  func(net.Listener) net.Listener
}

// limited changes the limits.
func limited(change func(*limits)) func(*setup) {
	return func(o *setup) { change(&o.limits) }
}

// answering replaces the handler of an operation. Tests use it to simulate faults and rare timings.
func answering[Req, Resp any](id string, fn func(ctx context.Context, c *call[Req]) (Resp, error)) func(*setup) {
	return func(o *setup) { o.handlers[id] = handle(fn) }
}

// appending lets a test inspect turns, which are not stored. Its error becomes the response.
func appending(look func(ctx context.Context, c *call[session.TurnRequest]) error) func(*setup) {
	return answering("appendTurn", func(ctx context.Context, c *call[session.TurnRequest]) (session.TurnResponse,
		error) {
		return session.TurnResponse{SessionID: c.body.SessionID, Turn: uint32(len(c.body.Messages))}, look(ctx, c)
	})
}

// anyTurn accepts every turn and stores none.
func anyTurn(o *setup) {
	appending(func(context.Context, *call[session.TurnRequest]) error { return nil })(o)
}

// echoing answers requests for a window with the request.
func echoing(o *setup) {
	answering("assemble", func(_ context.Context, c *call[window.Request]) (spliced[window.Answer], error) {
		raw := c.raw
		if len(raw) == 0 {
			raw = []byte("null")
		}
		return append(append(append(c.buffer(), `{"echo":`...), raw...), '}'), nil
	})(o)
}

const (
	turns       = "/api/v1/projects/default/turns"
	contextPath = "/api/v1/projects/default/context"
)

// site is a server for an in-memory engine that runs for one test.
type site struct {
	t      testing.TB
	addr   string
	s      *Server
	engine *engine.Engine
	log    *syncBuffer
	stop   func() error // ends Serve and returns its error; also called at the end of the test

	keys *sync.Map // secrets by "ROLE/TENANT"
}

const rootKey = "root"

func start(t testing.TB, change ...func(*setup)) *site {
	t.Helper()
	log := new(syncBuffer)
	o := setup{limits: defaultLimits(), store: memstore.New(), handlers: map[string]endpoint{}, before: func(*Server) {},
		listener: func(ln net.Listener) net.Listener { return ln }}
	o.limits.commit = time.Minute // A stream's turn is stored before its client gets the end, however busy the machine is.
	o.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.LogSample = 1
	o.Console = builtConsole
	o.Version, o.Random = "test", strings.NewReader("12345678")
	for _, c := range change {
		c(&o)
	}
	counter, host := enginetest.Parts()
	e, first, err := engine.New(t.Context(), engine.Options{Store: store.Seal(o.store), Host: host, Tokens: counter,
		Analyser: enginetest.Analyser(), BuiltIns: enginetest.BuiltIns(), RootKey: rootKey, Upstreams: o.upstreams})
	if err != nil {
		t.Fatal(err)
	}
	o.Engine = e
	s, err := newServer(o.Options, o.limits)
	if err != nil {
		t.Fatal(err)
	}
	for id, h := range o.handlers {
		i := slices.IndexFunc(s.routes, func(r *route) bool { return r.id == id })
		s.routes[i].endpoint = h
	}
	o.before(s)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, o.listener(ln)) }()
	stop := sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() { _ = stop() })
	keys := new(sync.Map)
	keys.Store("tenant_admin/"+ident.DefaultTenant, first)
	return &site{t: t, addr: ln.Addr().String(), s: s, engine: e, log: log, stop: stop, keys: keys}
}

// key returns the secret of the key named ROLE or ROLE/TENANT. It creates the key, and the tenant, if needed.
func (s *site) key(name string) string {
	s.t.Helper()
	role, tenantID, _ := strings.Cut(name, "/")
	if tenantID == "" {
		tenantID = ident.DefaultTenant
	}
	name = role + "/" + tenantID
	if key, ok := s.keys.Load(name); ok {
		return key.(string)
	}
	s.tenant(tenantID)
	made, err := s.engine.Tenants.CreateKey(context.Background(), ident.Caller{Tenant: tenantID,
		Role: ident.RoleRoot},
		ident.Once{}, tenant.KeySpec{Role: role})
	if err != nil {
		s.t.Fatal(err)
	}
	key, _ := s.keys.LoadOrStore(name, made.Key)
	return key.(string)
}

// revoke deletes a key of the default tenant that key has created.
func (s *site) revoke(name string) {
	s.t.Helper()
	id := strings.Split(s.key(name), "_")[1]
	if err := s.engine.Tenants.DeleteKey(context.Background(), ident.Caller{Tenant: ident.DefaultTenant,
		Role: ident.RoleRoot},
		id); err != nil {
		s.t.Fatal(err)
	}
}

// tenant ensures that a tenant exists.
func (s *site) tenant(id string) {
	s.t.Helper()
	_, err := s.engine.CreateTenant(context.Background(), ident.Once{}, tenant.Spec{ID: id})
	if e, ok := errors.AsType[*fault.Error](err); err != nil && (!ok || e.Kind != fault.Conflict) {
		s.t.Fatal(err)
	}
}

var keyName = regexp.MustCompile(`\b(reader|agent|tenant_admin)(/[\w-]+)?\b`)

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

// answer is a response, read completely.
type answer struct {
	status int
	header http.Header
	body   []byte
	close  bool // the server ends the connection after it
}

// problem decodes the response, which must be a problem, and checks what holds for all problems.
func (a answer) problem(t testing.TB) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("status %d: %v in %q", a.status, err, a.body)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if p.Status != a.status || p.Title != http.StatusText(a.status) || p.Type != "/errors#"+p.Code || p.Code == "" ||
		p.Detail == "" || p.RequestID == "" || p.RequestID != a.header.Get("X-Request-Id") {
		t.Errorf("status %d, X-Request-Id %q: %+v", a.status, a.header.Get("X-Request-Id"), p)
	}
	return p
}

// do sends a request; headers come as name, value pairs. Keys are named as in key.
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
	return read(s.t, s.send(req))
}

// send sends a request, with the names of keys in its headers replaced by their secrets.
func (s *site) send(req *http.Request) *http.Response {
	s.t.Helper()
	res, err := s.trySend(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

func (s *site) trySend(req *http.Request) (*http.Response, error) {
	for _, name := range []string{"Authorization", "X-Agent-Token", "X-Mneme-Key", "X-Api-Key"} {
		if v := req.Header.Get(name); v != "" {
			req.Header.Set(name, keyName.ReplaceAllStringFunc(v, s.key))
		}
	}
	return http.DefaultClient.Do(req)
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

// dial opens a connection for HTTP by hand. Everything on it times out after a minute.
func (s *site) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		s.t.Fatal(err)
	}
	return conn
}
