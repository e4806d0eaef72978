package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// exporting returns a server whose export is one line.
func exporting(t *testing.T, change ...func(*setup)) *site {
	e := &scripted{export: func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, someLine)
		return err
	}}
	return start(t, append(change, e.answer)...)
}

func asking(s *site, method, path, version string) string {
	return fmt.Sprintf("%s %s HTTP/%s\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", method, path, version,
		s.key("tenant_admin"))
}

const exportPath = "/api/v1/export"

// answered reads a response with its whole body.
func answered(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%d %q, %v", res.StatusCode, body, err)
	}
	return string(body)
}

// TestConnectionsOutliveStreams checks that requests after a stream are answered on its connection, whether they were
// sent together with it, during it, or later.
func TestConnectionsOutliveStreams(t *testing.T) {
	t.Parallel()
	s := exporting(t)
	conn := s.dial()
	in := bufio.NewReader(conn)
	together := asking(s, "GET", exportPath, "1.1") + asking(s, "GET", "/healthz", "1.1") +
		asking(s, "GET", exportPath, "1.1") + asking(s, "GET", exportPath, "1.1")
	if _, err := io.WriteString(conn, together+together[:40]); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{someLine, "", someLine, someLine} {
		if got := answered(t, in); want != "" && got != want {
			t.Errorf("answer %d is %q", i, got)
		}
	}
	for _, rest := range []string{together[40:], together, asking(s, "GET", "/healthz", "1.1")} {
		if _, err := io.WriteString(conn, rest); err != nil {
			t.Fatal(err)
		}
		for range strings.Count(rest, "Host: x") {
			answered(t, in)
		}
	}
	fmt.Fprint(conn, asking(s, "HEAD", exportPath, "1.1"))
	if res, err := http.ReadResponse(in, &http.Request{Method: "HEAD"}); err != nil || res.StatusCode != 200 {
		t.Errorf("HEAD: %v, %v", res, err)
	}
	if open, _ := s.s.connections.figures(); open != 1 {
		t.Errorf("%d connections are open", open)
	}
}

// TestServedOnOnce checks that fasthttp is not asked to serve a connection again while it still has it: it would lose
// track of idle connections.
func TestServedOnOnce(t *testing.T) {
	t.Parallel()
	let := make(chan struct{})
	s := exporting(t, func(o *setup) {
		o.before = func(s *Server) {
			fast := s.app.Server()
			changed := fast.ConnState
			fast.ConnState = func(c net.Conn, state fasthttp.ConnState) {
				if state == fasthttp.StateHijacked {
					<-let
				}
				changed(c, state)
			}
		}
	})
	conn := s.dial()
	in := bufio.NewReader(conn)
	fmt.Fprint(conn, asking(s, "GET", exportPath, "1.1")+asking(s, "GET", "/healthz", "1.1"))
	answered(t, in)
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if more, err := in.Peek(1); err == nil {
		t.Errorf("%q came although the connection is not free", more)
	}
	close(let)
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	answered(t, in)
}

// TestQuietBehindStreams checks that a client that sends nothing after a stream gets no response, and that its
// connection is closed after the idle timeout.
func TestQuietBehindStreams(t *testing.T) {
	t.Parallel()
	s := exporting(t, limited(func(l *limits) { l.idle = 200 * time.Millisecond }))
	conn := s.dial()
	in := bufio.NewReader(conn)
	fmt.Fprint(conn, asking(s, "GET", exportPath, "1.1"))
	if got := answered(t, in); got != someLine {
		t.Errorf("%q", got)
	}
	if more, err := io.ReadAll(in); len(more) > 0 || err != nil {
		t.Errorf("behind the stream came %q, %v", more, err)
	}
}

// TestStreamsOfOldClients checks that the body of an HTTP/1.0 response ends with its connection, as for clients that
// ask for that.
func TestStreamsOfOldClients(t *testing.T) {
	t.Parallel()
	s := exporting(t)
	for _, sent := range []string{asking(s, "GET", exportPath, "1.0"),
		strings.Replace(asking(s, "GET", exportPath, "1.0"), "Host: x", "Host: x\r\nConnection: keep-alive", 1),
		strings.Replace(asking(s, "GET", exportPath, "1.1"), "Host: x", "Host: x\r\nConnection: close", 1)} {
		conn := s.dial()
		fmt.Fprint(conn, sent)
		var all strings.Builder
		in := bufio.NewReader(io.TeeReader(conn, &all))
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if chunked := len(res.TransferEncoding) > 0; err != nil || string(body) != someLine || !res.Close ||
			chunked != strings.Contains(sent, "1.1") {
			t.Errorf("%+v, %q, %v", res, body, err)
		}
		if more, err := io.ReadAll(in); len(more) > 0 || err != nil {
			t.Errorf("behind it came %q, %v", more, err)
		}
		if strings.Count(all.String(), "\r\nConnection: ") != 1 {
			t.Errorf("of the connection is said not one thing: %q", all.String())
		}
	}
}

// TestStopBehindStreams checks that a connection whose stream has ended does not keep a server from stopping.
func TestStopBehindStreams(t *testing.T) {
	t.Parallel()
	s := exporting(t)
	conn := s.dial()
	in := bufio.NewReader(conn)
	fmt.Fprint(conn, asking(s, "GET", exportPath, "1.1"))
	answered(t, in)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if more, err := io.ReadAll(in); len(more) > 0 || err != nil {
		t.Errorf("%q, %v", more, err)
	}
}

// TestStreamsWithoutAConnection checks that a stream's resources are released if its connection was closed before the
// stream could take it.
func TestStreamsWithoutAConnection(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 1)
	s := start(t, answering("exportTenant", func(_ context.Context, c *call[nothing]) (streamed, error) {
		if err := c.connection().Close(); err != nil {
			return streamed{}, err
		}
		return streamed{contentType: ndjsonType, close: func() { ended <- "let go of" },
			run: func(*stream) error { ended <- "run"; return nil }}, nil
	}))
	conn := s.dial()
	fmt.Fprint(conn, asking(s, "GET", exportPath, "1.1"))
	if how := <-ended; how != "let go of" {
		t.Errorf("the stream was %s", how)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("something was answered")
	} else if stuck, ok := errors.AsType[net.Error](err); ok && stuck.Timeout() {
		t.Error(err)
	}
	s.drained()
}
