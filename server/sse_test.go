package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
)

// fakeFeed returns the events of its next; a test wakes it by closing the channel of news.
type fakeFeed struct {
	next   func() ([]board.Event, error)
	news   func() <-chan struct{}
	closed atomic.Int32
}

func (f *fakeFeed) Next(context.Context) ([]board.Event, error) { return f.next() }
func (f *fakeFeed) Close()                                      { f.closed.Add(1) }

func (f *fakeFeed) News() <-chan struct{} {
	if f.news == nil {
		return nil
	}
	return f.news()
}

const streamPath = "/api/v1/boards/b/memory/stream"

// streaming starts a server for a feed that returns nothing unless a test changes that. Every stream reads that feed.
func streaming(t *testing.T, feed *fakeFeed, change ...func(*limits)) *site {
	if feed.next == nil {
		feed.next = func() ([]board.Event, error) { return nil, nil }
	}
	with := []func(*setup){
		answering("streamBoardEntries", func(_ context.Context, c *call[nothing]) (streamed, error) {
			return c.sse("memory", feed), nil
		}),
		answering("exportBoard", func(_ context.Context, c *call[nothing]) (streamed, error) {
			return c.entryLines(feed), nil
		}),
	}
	for _, c := range change {
		with = append(with, limited(c))
	}
	return start(t, with...)
}

// quick shortens the intervals of a stream.
func quick(l *limits) { l.heartbeat, l.poll = 20*time.Millisecond, 10*time.Millisecond }

// open requests a stream and returns its lines.
func (s *site) open(ctx context.Context) (*http.Response, *bufio.Scanner) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.addr+streamPath, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer reader")
	res, err := s.trySend(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = res.Body.Close() })
	return res, bufio.NewScanner(res.Body)
}

// drained waits until no stream is open.
func (s *site) drained() {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); s.s.metrics.streams.Load() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			s.t.Fatalf("%d streams are open", s.s.metrics.streams.Load())
		}
	}
}

func TestStreamTellsWhatComes(t *testing.T) {
	t.Parallel()
	events := make(chan []board.Event, 3)
	events <- []board.Event{{ID: "1", Data: "<a>\n"}, {ID: "2", Data: "b"}}
	events <- nil
	events <- []board.Event{{ID: "3", Data: "c"}}
	news := make(chan struct{})
	feed := &fakeFeed{news: func() <-chan struct{} { return news }, next: func() ([]board.Event, error) {
		select {
		case e := <-events:
			return e, nil
		default:
			return nil, nil
		}
	}}
	s := streaming(t, feed, func(l *limits) {
		l.heartbeat, l.poll, l.write = 20*time.Millisecond, time.Hour, 100*time.Millisecond
	})
	close(news)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, lines := s.open(ctx)
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache",
		"X-Accel-Buffering": "no"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	var got []string
	for alive := false; lines.Scan() && (len(got) == 0 || got[len(got)-1] != `data: {"memory":"c"}`); {
		sign := strings.HasPrefix(lines.Text(), ":") // which an empty line follows
		if !sign && !alive {
			got = append(got, lines.Text())
		}
		alive = sign
	}
	want := "retry: 1000||id: 1|event: memory|data: {\"memory\":\"<a>\\n\"}||id: 2|event: memory|data: " +
		"{\"memory\":\"b\"}||id: 3|event: memory|data: {\"memory\":\"c\"}"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
	if n := s.s.metrics.streams.Load(); n != 1 {
		t.Errorf("%d open streams are counted", n)
	}
	for range 20 { // heartbeats keep it alive beyond the time limit of other responses
		for lines.Scan() && !strings.HasPrefix(lines.Text(), ":") {
		}
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
	cancel() // a reader that has gone is noticed when a heartbeat cannot be sent
	s.drained()
	if n := feed.closed.Load(); n != 1 {
		t.Errorf("the feed was closed %d times", n)
	}
}

// A reader that does not read is cut off; others and the server continue.
func TestSlowReaderIsCutOff(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	given := 0
	long := strings.Repeat("x", 64<<10)
	feed := &fakeFeed{next: func() ([]board.Event, error) {
		mu.Lock()
		defer mu.Unlock()
		given++
		return []board.Event{{ID: fmt.Sprint(given), Data: long}}, nil
	}}
	s := streaming(t, feed, func(l *limits) { l.stall = 200 * time.Millisecond })
	for !s.stuck() { // until one was not cut off before its first byte
	}
	s.drained()
	mu.Lock()
	defer mu.Unlock()
	if given > 2000 { // what the network buffers, and no more: nothing is queued for a reader
		t.Errorf("%d events were taken for a reader who does not read", given)
	}
	if a := s.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

// stuck opens a stream, reads only its first bytes, and reports whether they came.
func (s *site) stuck() bool {
	s.t.Helper()
	conn := s.dial()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", streamPath, s.key("reader"))
	_, err := conn.Read(make([]byte, 100))
	return err == nil
}

// A stuck reader does not keep the server from stopping in time.
func TestStopWithAStuckReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64<<10)
	s := streaming(t, &fakeFeed{next: func() ([]board.Event, error) {
		return []board.Event{{ID: "1", Data: long}}, nil
	}}, func(l *limits) { l.stall, l.drain = time.Hour, 8*time.Second })
	if !s.stuck() {
		t.Fatal("nothing came")
	}
	time.Sleep(100 * time.Millisecond) // for the network's buffers to fill; less only makes the test easier
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

func TestStreamsEndCleanly(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*site){
		"stop":    func(s *site) { go func() { _ = s.stop() }() },
		"revoked": func(s *site) { s.revoke("reader") },
	} {
		t.Run(name, func(t *testing.T) {
			s := streaming(t, &fakeFeed{}, quick)
			res, lines := s.open(t.Context())
			if !lines.Scan() {
				t.Fatal("no first line")
			}
			end(s)
			for lines.Scan() {
			}
			if lines.Err() != nil { // the last chunk came: the end is an end, not a broken connection
				t.Errorf("%d: %v", res.StatusCode, lines.Err())
			}
			s.drained()
		})
	}
}

// A broken stream ends its connection, so that a reader does not take it for the end; nothing else is affected.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() ([]board.Event, error){
		"error": func() ([]board.Event, error) { return nil, fmt.Errorf("secret words") },
		"panic": func() ([]board.Event, error) { panic("secret words") },
	} {
		t.Run(name, func(t *testing.T) {
			open := make(chan struct{})
			s := streaming(t, &fakeFeed{next: func() ([]board.Event, error) { <-open; return fail() }}, quick)
			_, lines := s.open(t.Context())
			lines.Scan()
			close(open)
			for lines.Scan() {
				if strings.Contains(lines.Text(), "secret") {
					t.Error(lines.Text())
				}
			}
			if lines.Err() == nil {
				t.Error("the stream looks whole")
			}
			s.drained()
			if !strings.Contains(s.log.String(), "secret words") {
				t.Error("nothing in the log")
			}
			if a := s.do("GET", "/healthz", ""); a.status != 200 {
				t.Errorf("afterwards: %d", a.status)
			}
		})
	}
}

// HEAD returns the headers of GET, and holds no resources.
func TestHeadOfStreams(t *testing.T) {
	t.Parallel()
	feed := &fakeFeed{}
	s := streaming(t, feed)
	for _, path := range []string{streamPath, "/api/v1/boards/b/export"} {
		a := s.do("HEAD", path, "")
		if a.status != 200 || len(a.body) > 0 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if n := feed.closed.Load(); n != 2 {
		t.Errorf("%d of 2 feeds were closed", n)
	}
	if p := s.do("GET", streamPath, "{}").problem(t); p.Status != 400 || p.Code != "body_unexpected" {
		t.Errorf("%+v", p)
	}
	s.drained()
}

// Behind a proxy events arrive when they happen, not when a buffer is full.
func TestStreamBehindAProxy(t *testing.T) {
	t.Parallel()
	var given atomic.Bool
	feed := &fakeFeed{next: func() ([]board.Event, error) {
		if given.Swap(true) {
			return nil, nil
		}
		return []board.Event{{ID: "1", Data: "a"}}, nil
	}}
	s := streaming(t, feed)
	target, err := url.Parse("http://" + s.addr)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	t.Cleanup(proxy.Close)
	front := *s
	front.addr = strings.TrimPrefix(proxy.URL, "http://")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, lines := front.open(ctx)
	for lines.Scan() && lines.Text() != `data: {"memory":"a"}` {
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
	cancel()
}

func TestHundredsOfStreams(t *testing.T) {
	t.Parallel()
	s := streaming(t, &fakeFeed{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const streams = 300
	for range streams {
		if _, lines := s.open(ctx); !lines.Scan() || lines.Text() != "retry: 1000" {
			t.Fatalf("first line %q", lines.Text())
		}
	}
	if a := s.do("GET", "/metrics", ""); !strings.Contains(string(a.body),
		fmt.Sprintf("mneme_http_streams_open %d\n", streams)) {
		t.Errorf("metrics:\n%s", a.body)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	s.drained()
}
