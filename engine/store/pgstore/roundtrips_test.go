package pgstore

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// trips counts round trips on all connections: each starts with a write that follows an answer.
type trips struct{ n atomic.Int64 }

type countedConn struct {
	net.Conn
	trips    *trips
	answered atomic.Bool
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	if c.answered.Swap(false) {
		c.trips.n.Add(1)
	}
	return c.Conn.Write(p)
}

func (t *trips) watch(c *pgxpool.Config) {
	var dial pgconn.DialFunc = (&net.Dialer{}).DialContext
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &countedConn{Conn: conn, trips: t}, err
	}
	c.MaxConns = 1 // so that every statement is prepared after the first use
}

// TestRoundTrips counts the round trips of reads and commits of every kind once their statements are prepared.
func TestRoundTrips(t *testing.T) {
	var trips trips
	s, err := open(t.Context(), Options{URL: postgres.Database(t)}, trips.watch)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, kind := range []string{"k", "z"} {
		k := func(name string) []byte { return b(kind + name) }
		for name, call := range map[string]func() error{
			"read of keys and ranges": func() error {
				_, err := s.Read(t.Context(), "acme", store.Query{Keys: [][]byte{k("a"), k("b")}, Ranges: []store.Range{
					{From: k("a"), Limit: 50, Reverse: true}, {From: k("c"), KeysOnly: true}}})
				return err
			},
			"turn": func() error {
				return s.Commit(t.Context(), "acme", store.Batch{
					Expect: []store.Expect{{Key: k("live"), Value: b("l")}, {Key: k("project"), Value: b("p")}},
					Put:    []store.Pair{{Key: k("head"), Value: b("h")}, {Key: k("body"), Value: b("m")}}})
			},
			"deletion": func() error {
				return s.Commit(t.Context(), "acme", store.Batch{
					Expect: []store.Expect{{Key: k("none")}}, Put: []store.Pair{{Key: k("x")}}, Delete: [][]byte{k("a"), k("nothing")}})
			},
			"blind commit": func() error {
				return s.Commit(t.Context(), "acme", store.Batch{Put: []store.Pair{{Key: k("a"), Value: b("1")}}})
			},
			"lost precondition": func() error {
				err := s.Commit(t.Context(), "acme", store.Batch{
					Expect: []store.Expect{{Key: k("live")}}, Put: []store.Pair{{Key: k("a"), Value: b("2")}}})
				if err == nil {
					t.Error("it was not lost")
				}
				return nil
			},
		} {
			err := s.Commit(t.Context(), "acme", store.Batch{Put: []store.Pair{
				{Key: k("live"), Value: b("l")}, {Key: k("project"), Value: b("p")}}})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second run uses what the first prepared
				trips.n.Store(0)
				if err := call(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if n := trips.n.Load(); n != 1 {
				t.Errorf("%s of keys %q…: %d round trips", name, kind, n)
			}
		}
	}
}
