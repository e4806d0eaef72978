package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

// failing returns an error before each connection.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: err}
	}
	return f.Listener.Accept()
}

// A lack of descriptors does not end the listener; a permanent error does.
func TestAcceptOutlivesAShortage(t *testing.T) {
	t.Parallel()
	for last, want := range map[error]bool{syscall.EMFILE: true, syscall.ENFILE: true, net.ErrClosed: false} {
		beneath, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer beneath.Close()
		cs := &connections{log: slog.New(slog.DiscardHandler), max: 10, addresses: map[netip.Prefix]*address{}}
		l := listener{&failing{beneath, []error{syscall.EMFILE, last}}, cs}
		client, err := net.Dial("tcp", beneath.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if c, err := l.Accept(); (err == nil) != want || !want && !errors.Is(err, last) {
			t.Errorf("%v: %v, %v", last, c, err)
		}
	}
}

// request sends a request on a connection and returns the status, or 0 if the connection was closed.
func request(t *testing.T, conn net.Conn) int {
	t.Helper()
	fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// If a server has its maximum of connections, the one that has waited longest is closed for a new one, but never one
// with a running request.
func TestConnectionsAreShed(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}), make(chan struct{})
	s := start(t, limited(func(l *limits) { l.connections = 16 }), blocking(began, end))
	busy := s.dial()
	fmt.Fprintf(busy, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", turns,
		s.key("agent"), 100, body(100))
	<-began
	var silent, half, used []net.Conn
	for range 4 {
		conn := s.dial()
		fmt.Fprintf(conn, "GET /healthz HT") // and never the rest
		half = append(half, conn)
		silent = append(silent, s.dial())
		conn = s.dial()
		if status := request(t, conn); status != 200 {
			t.Fatal(status)
		}
		used = append(used, conn)
	}
	for i := range 40 {
		if status := request(t, s.dial()); status != 200 {
			t.Fatalf("connection %d: %d", i, status)
		}
	}
	for _, conn := range append(append(silent, half...), used...) {
		if n, err := conn.Read(make([]byte, 1)); err == nil || n > 0 {
			t.Errorf("a connection that waited longest is open: %v", err)
		}
	}
	close(end)
	if res, err := http.ReadResponse(bufio.NewReader(busy), nil); err != nil || res.StatusCode != 201 {
		t.Errorf("the request in flight: %v, %v", res, err)
	}
	if open, shed := s.s.connections.figures(); open > 16 || shed < 40-3 {
		t.Errorf("%d connections open, %d shed", open, shed)
	}
}

// Connections whose clients neither read their responses nor send the rest of an unread body can be closed, too.
func TestStalledConnectionsAreShed(t *testing.T) {
	t.Parallel()
	const stalled = 14 // as many as one address may have of 16
	for what, stall := range map[string]struct {
		request string
		doing   int
	}{
		"an answer is not taken": {"GET /api/v1/tools HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer KEY\r\n\r\n",
			sending},
		"a body does not end": {"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" +
			strings.Repeat("x", 20_000), receiving},
	} {
		s := start(t, limited(func(l *limits) { l.connections, l.taking = 16, 0 }),
			answering("listTools", func(context.Context, *call[nothing]) (blob, error) {
				return blob{contentType: jsonType, body: make([]byte, 32<<20)}, nil // more than the socket buffers hold
			}))
		for range stalled {
			fmt.Fprint(s.dial(), strings.Replace(stall.request, "KEY", s.key("reader"), 1))
		}
		cs := s.s.connections
		for n := 0; n < stalled; time.Sleep(time.Millisecond) {
			cs.mu.Lock()
			for _, a := range cs.addresses {
				n = a.waiting[stall.doing].Len()
			}
			cs.mu.Unlock()
		}
		for i := range 4 {
			if status := request(t, s.dial()); status != 200 {
				t.Errorf("%s: connection %d: %d", what, i, status)
			}
		}
	}
}

// One address cannot have all connections, and if there are too many it loses its own.
func TestAddressesShareConnections(t *testing.T) {
	t.Parallel()
	cs := &connections{log: slog.New(slog.DiscardHandler), max: 16, addresses: map[netip.Prefix]*address{}}
	come := func(from string) *conn {
		c, other := net.Pipe()
		t.Cleanup(func() { c.Close(); other.Close() })
		at := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 1))
		return cs.admit(addressed{c, at})
	}
	for range 40 {
		if c := come("192.0.2.1"); c == nil {
			t.Fatal("refused, although idle connections could be shed")
		}
	}
	if n := cs.addresses[netip.MustParsePrefix("192.0.2.1/32")].open; n != 14 {
		t.Errorf("one address has %d of 16 connections, want 14", n)
	}
	for _, from := range []string{"2001:db8::1", "2001:db8::2", "192.0.2.2", "192.0.2.3"} {
		if come(from) == nil {
			t.Errorf("%s was refused", from)
		}
	}
	if n := cs.addresses[netip.MustParsePrefix("192.0.2.1/32")].open; n != 12 {
		t.Errorf("the address with the most has %d connections, want 12: it makes room for the others", n)
	}
	if n := cs.addresses[netip.MustParsePrefix("2001:db8::/64")].open; n != 2 {
		t.Errorf("a network of IPv6 counts %d connections, want 2", n)
	}
	for range 20 { // all busy: none can be closed
		if c := come("192.0.2.9"); c != nil {
			c.is(working)
		}
	}
	if open, _ := cs.figures(); open != 16 {
		t.Errorf("%d connections are open, want 16", open)
	}
	if come("192.0.2.9") != nil {
		t.Error("an address whose connections all work got more than its part")
	}
}

type addressed struct {
	net.Conn
	from net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.from }
