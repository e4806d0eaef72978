package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// blocking accepts turns, reports when one begins, and answers it once end is closed.
func blocking(began chan<- struct{}, end <-chan struct{}) func(*setup) {
	return appending(func(context.Context, *call[session.TurnRequest]) error {
		began <- struct{}{}
		<-end
		return nil
	})
}

func wantBusy(t *testing.T, a answer) {
	t.Helper()
	if p := a.problem(t); p.Status != 503 || p.Code != "busy" || a.header.Get("Retry-After") == "" {
		t.Errorf("%+v, Retry-After %q", p, a.header.Get("Retry-After"))
	}
}

// A tenant that uses all its places waits, is then refused, and does not block another tenant.
func TestPlacesAreFair(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}, 100), make(chan struct{})
	s := start(t, limited(func(l *limits) { l.patient = 50 * time.Millisecond }), blocking(began, end))
	held := s.s.places
	places := 0
	for ; ; places++ { // until no more begin
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		err := held.Enter(ctx, "flood")
		cancel()
		if err != nil {
			break
		}
	}
	s.tenant("flood")
	wantBusy(t, s.do("POST", turns, body(100), "Authorization", "Bearer agent/flood"))
	if a := s.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("/healthz waits for a place: %d", a.status)
	}
	other := make(chan int, 1)
	go func() { other <- s.do("POST", turns, body(100)).status }()
	<-began // although the flood has all the places it may have
	for range places {
		held.Leave("flood")
	}
	close(end)
	if status := <-other; status != 201 {
		t.Errorf("another tenant: %d", status)
	}
	if a := s.do("POST", turns, body(100), "Authorization", "Bearer agent/flood"); a.status != 201 {
		t.Errorf("after the places are free: %d %s", a.status, a.body)
	}
}

// Bodies in flight are limited by their announced length, or as they arrive, before they are read.
func TestBodiesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	const size = 100_000
	s := start(t, anyTurn, limited(func(l *limits) { l.bytes = 6 * size * bodyCost })) // three for a tenant
	pieces := []io.Closer{}
	for range 3 {
		conn := s.dial()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
			turns, s.key("agent"), size, body(size)[:size/2])
		pieces = append(pieces, conn)
	}
	for s.s.bytes.held() < 3*size*bodyCost {
		time.Sleep(time.Millisecond)
	}
	wantBusy(t, s.do("POST", turns, body(size), "Authorization", "Bearer agent"))
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.addr+turns, strings.NewReader(body(size)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer agent")
	req.ContentLength = -1
	wantBusy(t, read(t, s.send(req)))
	if a := s.do("POST", turns, body(size), "Authorization", "Bearer agent/other"); a.status != 201 {
		t.Errorf("another tenant: %d %s", a.status, a.body)
	}
	for _, c := range pieces {
		_ = c.Close()
	}
	for s.s.bytes.held() > 0 { // their bodies end early
		time.Sleep(time.Millisecond)
	}
	// A body that is larger than the share is admitted.
	if a := s.do("POST", turns, body(10*size), "Authorization", "Bearer agent"); a.status != 201 ||
		s.s.bytes.held() != 0 {
		t.Errorf("%d %s, %d bytes held", a.status, a.body, s.s.bytes.held())
	}
}

// A long response counts until its client has read it.
func TestLongAnswersAreBounded(t *testing.T) {
	t.Parallel()
	const size = 32 << 20 // more than the socket buffers hold
	s := start(t, limited(func(l *limits) { l.bytes = 6 * size }),
		answering("listTools", func(_ context.Context, c *call[nothing]) (blob, error) {
			return blob{contentType: jsonType, body: make([]byte, size)}, nil
		}))
	var slow []io.Closer
	for range 2 { // each counts as a quarter of the budget
		conn := s.dial()
		fmt.Fprintf(conn, "GET /api/v1/tools HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", s.key("reader"))
		slow = append(slow, conn)
	}
	for s.s.bytes.held() < 3*size {
		time.Sleep(time.Millisecond)
	}
	wantBusy(t, s.do("GET", "/api/v1/tools", "", "Authorization", "Bearer reader"))
	if a := s.do("GET", "/api/v1/tools", "", "Authorization", "Bearer reader/other"); a.status != 200 ||
		len(a.body) != size {
		t.Errorf("another tenant: %d, %d bytes", a.status, len(a.body))
	}
	for _, c := range slow {
		_ = c.Close()
	}
	for s.s.bytes.held() > 0 {
		time.Sleep(time.Millisecond)
	}
}

// A long response counts twice its length, whether the request has changed something or not.
func TestLongAnswersCountTwice(t *testing.T) {
	t.Parallel()
	const size = 100_000
	s := start(t, limited(func(l *limits) { l.bytes = 100 * size }))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		var c fasthttp.RequestCtx
		c.Init2(&conn{of: s.s.connections}, nil, false)
		c.Request.Header.SetMethod(method)
		c.Response.SetBody(make([]byte, size))
		f := s.s.app.AcquireCtx(&c)
		x := exchange{s: s.s, c: f, caller: ident.Caller{Tenant: "t"}}
		if err := x.holdAnswer(); err != nil || s.s.bytes.held() != 2*size {
			t.Errorf("%s: %v, %d bytes held", method, err, s.s.bytes.held())
		}
		x.connection().held.release()
		s.s.app.ReleaseCtx(f)
	}
}

// However many tenants take what they can, something is left for the next one.
func TestBudgetIsFair(t *testing.T) {
	t.Parallel()
	b := newBudget(1 << 20)
	for n := range 8 {
		total := int64(0)
		for {
			l := lease{of: b, tenant: string(rune('a' + n))}
			if !l.grow(1 << 10) {
				break
			}
			total += l.bytes
		}
		if want := int64(1<<20) >> (n + 1); total < want-2<<10 || total > want {
			t.Errorf("tenant %d holds %d bytes, want about %d", n, total, want)
		}
	}
}

// However many streams a tenant opens, another tenant still gets its own.
func TestTenantsShareStreams(t *testing.T) {
	t.Parallel()
	s := streaming(t, &fakeFeed{}, quick, func(l *limits) { l.connections = 32 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 16 {
		if res, _ := s.open(ctx); res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
	}
	wantBusy(t, s.do("GET", streamPath, "", "Authorization", "Bearer reader"))
	conn := s.dial()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", streamPath,
		s.key("reader/other"))
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != 200 {
		t.Errorf("another tenant: %v, %v", res, err)
	}
	_ = conn.Close()
	cancel()
	s.drained()
	if held := s.s.following.held(); held != 0 {
		t.Errorf("%d streams are counted, and none is open", held)
	}
}

// A stream waits for its tenant's turn before it reads the store, and has no place while it is idle.
func TestStreamsTakeTurns(t *testing.T) {
	t.Parallel()
	looked := make(chan struct{}, 1)
	feed := &fakeFeed{next: func() ([]board.Event, error) {
		select {
		case looked <- struct{}{}:
		default:
		}
		return nil, nil
	}}
	s := streaming(t, feed, quick)
	var held int
	for ; ; held++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		err := s.s.feeds.Enter(ctx, "busy")
		cancel()
		if err != nil {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.open(ctx)
	for s.s.feeds.Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-looked:
		t.Error("a stream looked at the store before its turn")
	default:
	}
	for range held {
		s.s.feeds.Leave("busy")
	}
	<-looked
	for range 2 * held { // each place is free again
		if err := s.s.feeds.Enter(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		s.s.feeds.Leave("other")
	}
}
