package pgstore

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/pgstore/pgtest"
)

// own starts a database server that no other test uses.
func own(t *testing.T) *pgtest.Cluster {
	t.Helper()
	cluster, err := pgtest.Start()
	if errors.Is(err, pgtest.ErrNotInstalled) {
		postgres.Cluster(t) // decides whether that is a failure
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// logged keeps the log.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), text)
}

// openUnwatched opens a store that checks its database only when the test says so.
func openUnwatched(t *testing.T, url string, log *logged) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: url, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.background.Wait()
	t.Cleanup(func() { s.Close() })
	return s
}

// TestFailover takes one database server through the events of replicated ones.
func TestFailover(t *testing.T) {
	t.Parallel()
	cluster := own(t)
	t.Run("hung standby", func(t *testing.T) { hungStandby(t, cluster) })
	t.Run("gone back", func(t *testing.T) { goneBack(t, cluster) })
	t.Run("standby alone", func(t *testing.T) { standbyAlone(t, cluster) })
}

// hungStandby enables synchronous replication to a standby that never answers. PostgreSQL commits anyway if the
// client gives up the commit, or an operator cancels its wait; the store must not report that as an acknowledged
// commit.
func hungStandby(t *testing.T, cluster *pgtest.Cluster) {
	database, err := cluster.Database()
	if err != nil {
		t.Fatal(err)
	}
	var log logged
	s := openUnwatched(t, database, &log)
	mustCommit(t, s, store.Batch{Put: put("k", "0")})
	s.synced.Store(nil) // earlier acknowledgements no longer prove anything
	s.look(t.Context())
	if s.Failed() != nil {
		t.Fatalf("Failed before: %v", s.Failed())
	}
	if err := cluster.Set(t.Context(), "synchronous_standby_names", "nobody"); err != nil {
		t.Fatal(err)
	}

	s.patience, s.reading, s.running = 200*time.Millisecond, time.Second, 300*time.Millisecond
	err = store.ErrUnavailable
	for errors.Is(err, store.ErrUnavailable) { // until one was sent before it was given up
		err = s.Commit(t.Context(), "acme", store.Batch{Put: put("k", "1")})
	}
	if !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a commit given up: %v", err)
	}
	s.running = running
	canceled := make(chan error, 1)
	go func() { canceled <- s.Commit(context.Background(), "acme", store.Batch{Put: put("k", "2")}) }()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for waiting := true; waiting; { // until PostgreSQL has cancelled all waiting commits
		select {
		case err := <-canceled:
			waiting = false
			if !errors.Is(err, store.ErrUnknown) {
				t.Errorf("a commit whose wait was canceled: %v", err)
			}
		default:
			const cancel = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
			_, err := conn.Exec(t.Context(), cancel)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// Unreplicated data is not confirmed, so that nothing acknowledges it.
	if err := s.Confirm(t.Context()); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("Confirm: %v", err)
	}
	s.patience, s.reading = DefaultPatience, reading
	if got := read(t, s, "k")[0]; got != "2" {
		t.Errorf("%q is there: PostgreSQL did not commit, so the test tells nothing", got)
	}
	s.synced.Store(nil)
	s.look(t.Context())
	if s.Failed() == nil || !log.has("does not take commits") {
		t.Errorf("a look finds %v", s.Failed())
	}
	if err := cluster.Set(t.Context(), "synchronous_standby_names", ""); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, store.Batch{Put: put("k", "3")})
	if err := s.Confirm(t.Context()); err != nil {
		t.Errorf("Confirm: %v", err)
	}
	s.synced.Store(nil)
	s.look(t.Context())
	if s.Failed() != nil {
		t.Errorf("Failed afterwards: %v", s.Failed())
	}
}

// goneBack lets the database fail over to a standby that lacks the newest commits.
func goneBack(t *testing.T, cluster *pgtest.Cluster) {
	database, err := cluster.Database()
	if err != nil {
		t.Fatal(err)
	}
	var log logged
	s := openUnwatched(t, database, &log)
	mustCommit(t, s, store.Batch{Put: put("k", "kept")})
	before := s.Epoch()
	if err := cluster.Keep(); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, store.Batch{Put: put("k", "lost")})
	if err := cluster.GoBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, "k")[0]; got != "kept" {
		t.Errorf("%q is there", got)
	}
	if s.Epoch() == before || before == "" || !log.has("another timeline") {
		t.Errorf("the epoch was %q and is %q", before, s.Epoch())
	}
	mustCommit(t, s, store.Batch{Expect: holds("k", "kept"), Put: put("k", "again")})
	// Answers of a former primary are ignored.
	e := *s.epoch.Load()
	former := newEpoch(e.system, e.timeline-1)
	if !s.former(&link{epoch: former}) || !errors.Is(s.learn(former), errFormer) {
		t.Error("a connection to the timeline before passes")
	}
}

// standbyAlone opens a store that can never work. Open fails at once, although it waits for an unreachable database.
func standbyAlone(t *testing.T, cluster *pgtest.Cluster) {
	database, err := cluster.Database()
	if err != nil {
		t.Fatal(err)
	}
	openURL(t, database).Close()
	if err := cluster.Standby(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), starting*DefaultPatience/2)
	defer cancel()
	if _, err := Open(ctx, Options{URL: database}); err == nil || ctx.Err() != nil || !errors.Is(err, errStandby) {
		t.Errorf("a standby alone: %v", err)
	}
}

// TestClocks compares this machine's clock with the database's.
func TestClocks(t *testing.T) {
	var log logged
	s := openUnwatched(t, postgres.Database(t), &log)
	look := func() { // until a check is fast enough to tell the clocks apart
		for took := time.Hour; took > 200*time.Millisecond; {
			began := time.Now()
			if err := s.lookAtClock(t.Context()); err != nil {
				t.Fatal(err)
			}
			took = time.Since(began)
		}
	}
	look()
	if got := time.Duration(s.skew.Load()); got.Abs() > mostSkew || s.far.Load() {
		t.Errorf("one machine's clocks are %v apart", got)
	}
	s.now = func() time.Time { return time.Now().Add(-time.Minute) }
	look()
	if got := time.Duration(s.skew.Load()).Round(time.Second); got != -time.Minute || !log.has("clock") {
		t.Errorf("a clock a minute behind is %v ahead", got)
	}
}

// TestNoMultixacts lets many commits expect one record at once. They must not lock rows together, because PostgreSQL
// gives each set of such lockers a number, and has few numbers.
func TestNoMultixacts(t *testing.T) {
	s := openURL(t, postgres.Database(t))
	defer s.Close()
	mustCommit(t, s, store.Batch{Put: put("project", "p")})
	next := func() (n string) {
		const ask = "SELECT next_multixact_id FROM pg_control_checkpoint()"
		if err := s.main.QueryRow(t.Context(), ask).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	checkpoint := func() {
		if _, err := s.main.Exec(t.Context(), "CHECKPOINT"); err != nil {
			t.Fatal(err)
		}
	}
	checkpoint()
	before := next()
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for n := range 40 {
				err := s.Commit(t.Context(), "acme", store.Batch{Expect: holds("project", "p"),
					Put: put(string(rune('a'+w))+string(rune('0'+n)), "v")})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	checkpoint()
	if after := next(); after != before {
		t.Errorf("320 commits took multixacts from %s to %s", before, after)
	}
}

// TestWrongAuthority connects to a server whose certificate another authority signed.
func TestWrongAuthority(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var request [8]byte
			if _, err := io.ReadFull(conn, request[:]); err == nil {
				_, _ = conn.Write([]byte("S"))
				_ = tls.Server(conn, web.TLS).Handshake()
			}
			conn.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), starting*DefaultPatience/2)
	defer cancel()
	_, err = Open(ctx, Options{URL: "postgres://mneme@" + l.Addr().String() + "/mneme?sslmode=verify-full"})
	if !errors.As(err, new(*tls.CertificateVerificationError)) || ctx.Err() != nil {
		t.Errorf("Open: %v", err)
	}
}
