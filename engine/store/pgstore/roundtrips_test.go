package pgstore

import (
	"context"
	"fmt"
	"net"
	"sync"
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

// TestRoundTrips counts the round trips of reads and commits of every kind once their statements are prepared. Over
// either guard each takes one. A commit with a precondition that does not hold takes two more, to undo the transaction
// and to find the precondition, and up to three in which pgx prepares the statements of a failed transaction again.
func TestRoundTrips(t *testing.T) { underBoth(t, testRoundTrips) }

func testRoundTrips(t *testing.T, database func(testing.TB) string) {
	var trips trips
	s := oneWorker(t, database(t), &trips)
	for _, kind := range []string{"k", "z"} {
		k := func(name string) []byte { return b(kind + name) }
		for name, call := range map[string]func() error{
			"read of keys": func() error {
				_, err := s.Read(t.Context(), "acme", store.Query{Keys: [][]byte{k("a"), k("b")}})
				return err
			},
			"commit that writes nothing": func() error {
				return s.Commit(t.Context(), "acme", store.Batch{Expect: []store.Expect{{Key: k("live"), Value: b("l")}}})
			},
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
			most := int64(1)
			if name == "lost precondition" {
				most = 6
			}
			if n := trips.n.Load(); n > most {
				t.Errorf("%s of keys %q…: %d round trips, want at most %d", name, kind, n, most)
			}
		}
	}
}

// TestFoldedRoundTrips counts the round trips of 16 commits, and of 16 reads, that wait at the same time: one each.
func TestFoldedRoundTrips(t *testing.T) {
	underBoth(t, func(t *testing.T, database func(testing.TB) string) {
		var trips trips
		url := database(t)
		s := oneWorker(t, url, &trips)
		mustCommit(t, s, store.Batch{Put: put("live", "yes")})
		turn := func(i, round int) store.Batch {
			return store.Batch{Expect: holds("live", "yes"), Put: put(fmt.Sprintf("%d/%d", round, i), "v")}
		}
		for round := range 2 { // the second uses what the first prepared
			var batches []store.Batch
			for i := range mostFolded {
				batches = append(batches, turn(i, round))
			}
			trips.n.Store(0)
			for _, err := range behind(t, s, url, commits(t, s, batches...)...) {
				if err != nil {
					t.Error(err)
				}
			}
			if _, err := s.main.Exec(t.Context(), "DELETE FROM mneme_records WHERE key = 'gate'"); err != nil {
				t.Fatal(err)
			}
		}
		// The commit that the others wait for, theirs, and the deletion.
		if n := trips.n.Load(); n != 3 {
			t.Errorf("16 commits: %d round trips, want 1", n-2)
		}

		read(t, s, "live")                       // prepares the statement
		conn, err := s.main.Acquire(t.Context()) // the only one
		if err != nil {
			t.Fatal(err)
		}
		var reading sync.WaitGroup
		for i := range 1 + mostJoined {
			reading.Go(func() {
				if got := read(t, s, fmt.Sprint("0/", i))[0]; (got == "v") != (i < mostFolded) {
					t.Errorf("key %d has %q", i, got)
				}
			})
			awaitLength(s.lookups, i) // the first is taken, and waits for the connection
		}
		trips.n.Store(0)
		conn.Release()
		reading.Wait()
		if n := trips.n.Load(); n != 2 {
			t.Errorf("16 reads behind another: %d round trips, want 2", n)
		}
	})
}
