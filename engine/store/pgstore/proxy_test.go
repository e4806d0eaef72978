package pgstore

import (
	"net"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store/pgstore/pgtest"
)

// proxy is between a store and its database and cuts connections at given points.
type proxy struct {
	listener net.Listener
	target   string
	cut      func() cut // decides for each message from the client to the database
}

// cut says where a connection ends.
type cut int

const (
	nowhere     cut = iota
	beforeSent      // The statement does not arrive.
	afterSent       // It arrives; the result is not read.
	beforeReply     // It is executed and answered; the answer does not arrive.
	inReply         // Only the first bytes of the answer arrive.
)

func newProxy(t *testing.T, c *pgtest.Cluster, decide func() cut) *proxy {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), filepath.Base(c.Socket())))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l, c.Socket(), decide}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return p
}

// through returns the URL of a database through the proxy.
func (p *proxy) through(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", filepath.Dir(p.listener.Addr().String()))
	u.RawQuery = q.Encode()
	return u.String()
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var ending atomic.Int32 // of type cut
	go func() {
		defer client.Close()
		defer server.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			switch cut(ending.Load()) {
			case beforeReply:
				return
			case inReply:
				_, _ = client.Write(buf[:min(n, 7)])
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		where := p.cut()
		if where == beforeSent {
			return
		}
		ending.Store(int32(where))
		if _, err := server.Write(buf[:n]); err != nil || where == afterSent {
			return
		}
		if where != nowhere {
			time.Sleep(time.Second) // the other direction ends it first
			return
		}
	}
}
