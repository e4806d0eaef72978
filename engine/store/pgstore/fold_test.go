package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// TestFoldable says which of the first commits that wait share a transaction.
func TestFoldable(t *testing.T) {
	commit := func(b store.Batch) *attempt { return &attempt{commit: newCommit("acme", b)} }
	writes := func(key string) *attempt { return commit(store.Batch{Put: put(key, "v")}) }
	expects := func(key, then string) *attempt {
		return commit(store.Batch{Expect: holds(key, "v"), Put: put(then, "v")})
	}
	many := func(name string, n int) (out []*attempt) {
		for i := range n {
			out = append(out, writes(fmt.Sprint(name, i)))
		}
		return out
	}
	wide := func(name string, keys int) *attempt {
		var b store.Batch
		for i := range keys {
			b.Put = append(b.Put, put(fmt.Sprint(name, i), "v")...)
		}
		return commit(b)
	}
	heavy := func(name string) *attempt {
		var b store.Batch
		for i := range 4 {
			b.Put = append(b.Put, store.Pair{Key: fmt.Append(nil, name, i), Value: make([]byte, 400<<10)})
		}
		return commit(b)
	}
	alone := writes("alone")
	alone.alone = true
	for _, c := range []struct {
		name    string
		waiting []*attempt
		want    int
	}{
		{"one", many("k", 1), 1},
		{"several", many("k", 5), 5},
		{"more than fit", many("k", 40), mostFolded},
		{"all expect one key", []*attempt{expects("live", "a"), expects("live", "b"), expects("live", "c")}, 3},
		{"two write one key", []*attempt{writes("a"), writes("b"), writes("a"), writes("c")}, 2},
		{"one writes what another expects", []*attempt{writes("a"), expects("a", "b")}, 1},
		{"one expects what another writes", []*attempt{expects("a", "b"), writes("a")}, 1},
		{"48 keys, twice", []*attempt{wide("a", 48), wide("b", 48)}, 2},
		{"48 keys, three times: 145 locks", []*attempt{wide("a", 48), wide("b", 48), wide("c", 48)}, 2},
		{"49 keys first", []*attempt{wide("a", 49), writes("b")}, 1},
		{"49 keys behind another", []*attempt{writes("b"), wide("a", 49), writes("c")}, 1},
		{"4 MiB", []*attempt{heavy("a"), heavy("b"), heavy("c")}, 2},
		{"refused before", []*attempt{alone, writes("b")}, 1},
		{"refused before, behind another", []*attempt{writes("b"), alone}, 1},
	} {
		if got := foldable(c.waiting); got != c.want {
			t.Errorf("%s: %d of %d share a transaction, want %d", c.name, got, len(c.waiting), c.want)
		}
	}
	other := &attempt{commit: newCommit("other", store.Batch{Put: put("a", "v")})}
	if got := foldable([]*attempt{writes("a"), other}); got != 2 {
		t.Errorf("one key of two tenants: %d", got)
	}
}

// gate holds a store's only worker for commits in a commit that cannot end.
type gate struct {
	tx   pgx.Tx
	done chan error
}

// oneWorker opens a store that has one worker for commits and one for reads, and waits for anything as long as it
// takes.
func oneWorker(t *testing.T, url string, trips *trips) *Store {
	t.Helper()
	s, err := open(t.Context(), Options{URL: url, Patience: time.Minute}, trips.watch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	const long = 5 * time.Minute
	s.acquiring, s.running, s.reading = long, long, long
	s.commits.patience, s.looseCommits.patience, s.lookups.patience = long, long, long
	return s
}

// shut makes the worker wait for a row that another connection has changed.
func shut(t *testing.T, s *Store, url string) *gate {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	const row = "INSERT INTO mneme_records (tenant, key, value) VALUES ('acme', 'gate', 'shut')"
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	g := &gate{tx: tx, done: make(chan error, 1)}
	go func() { g.done <- s.Commit(t.Context(), "acme", store.Batch{Put: put("gate", "open")}) }()
	const blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
	for n := 0; n == 0; time.Sleep(time.Millisecond) {
		if err := tx.QueryRow(t.Context(), blocked).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *gate) open(t *testing.T) {
	t.Helper()
	if err := g.tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-g.done; err != nil {
		t.Errorf("the commit at the gate: %v", err)
	}
}

func awaitLength[R waiter](q *queue[R], n int) {
	for q.length() != n {
		time.Sleep(time.Millisecond)
	}
}

// behind starts calls behind a shut gate, one after the other, and returns their outcomes in order.
func behind(t *testing.T, s *Store, url string, calls ...func() error) []error {
	t.Helper()
	g := shut(t, s, url)
	outcomes := make([]error, len(calls))
	var running sync.WaitGroup
	for i, call := range calls {
		running.Go(func() { outcomes[i] = call() })
		awaitLength(s.commits, i+1)
	}
	g.open(t)
	running.Wait()
	return outcomes
}

func commits(t *testing.T, s *Store, batches ...store.Batch) (out []func() error) {
	for _, b := range batches {
		out = append(out, func() error { return s.Commit(t.Context(), "acme", b) })
	}
	return out
}

// TestFoldedConflict commits 16 batches in one transaction, of which some have a precondition that does not hold. Those
// end with a conflict that names it, and all others are committed.
func TestFoldedConflict(t *testing.T) {
	underBoth(t, func(t *testing.T, database func(testing.TB) string) {
		url := database(t)
		s := oneWorker(t, url, &trips{})
		mustCommit(t, s, store.Batch{Put: put("live", "yes")})
		batches := make([]store.Batch, mostFolded)
		for i := range batches {
			batches[i] = store.Batch{Expect: holds("live", "yes"), Put: put(fmt.Sprint("k", i), "v")}
			if i%5 == 2 {
				batches[i].Expect = append(batches[i].Expect, store.Expect{Key: b("gone"), Value: b("v")})
			}
		}
		for i, err := range behind(t, s, url, commits(t, s, batches...)...) {
			value := read(t, s, fmt.Sprint("k", i))[0]
			conflict, _ := errors.AsType[*store.ConflictError](err)
			switch {
			case i%5 == 2 && (conflict == nil || conflict.Index != 1 || value != ""):
				t.Errorf("commit %d, which expects what is not there: %v, and the key has %q", i, err, value)
			case i%5 != 2 && (err != nil || value != "v"):
				t.Errorf("commit %d: %v, and the key has %q", i, err, value)
			}
		}
		// The first commit, the one that the others waited for, and the rest of these.
		if folds, all := s.count.folds.Load(), s.count.commits.Load(); folds != 3 || all != 15 {
			t.Errorf("%d commits in %d transactions, want 15 in 3", all, folds)
		}
	})
}

// TestRefusedFold commits several batches in one transaction, of which the database refuses one. Each of the others is
// committed.
func TestRefusedFold(t *testing.T) {
	underBoth(t, func(t *testing.T, database func(testing.TB) string) {
		url := database(t)
		s := oneWorker(t, url, &trips{})
		for _, sql := range []string{`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
			$$BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END$$`,
			"CREATE TRIGGER refuse BEFORE INSERT ON mneme_records FOR EACH ROW WHEN (NEW.key = 'large') " +
				"EXECUTE FUNCTION refuse()",
		} {
			if _, err := s.main.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		keys := []string{"a", "b", "large", "c"}
		var batches []store.Batch
		for _, key := range keys {
			batches = append(batches, store.Batch{Put: put(key, "v")})
		}
		for i, err := range behind(t, s, url, commits(t, s, batches...)...) {
			refused := keys[i] == "large"
			if value := read(t, s, keys[i])[0]; refused != errors.Is(err, store.ErrNoSpace) || refused != (value == "") {
				t.Errorf("commit of %q: %v, and the key has %q", keys[i], err, value)
			}
		}
	})
}

// TestBurntToken commits two batches in one transaction, one of which has a token that was burnt. It does not happen,
// and the other one does.
func TestBurntToken(t *testing.T) {
	url := postgres.Database(t)
	s := oneWorker(t, url, &trips{})
	burnt := s.newToken()
	attempts := make([]*attempt, 2)
	for i := range attempts {
		c := newCommit("acme", store.Batch{Put: put(fmt.Sprint("k", i), "v")})
		attempts[i] = &attempt{entry: newEntry(), commit: c, token: s.newToken()}
	}
	attempts[0].token = burnt
	if happened, err := s.burn(t.Context(), s.reading, burnt); happened || err != nil {
		t.Fatalf("burn: %t, %v", happened, err)
	}
	var calls []func() error
	for _, a := range attempts {
		calls = append(calls, func() error { return s.commits.do(t.Context(), a, false) })
	}
	outcomes := behind(t, s, url, calls...)
	if got := read(t, s, "k0", "k1"); !madeTwice(outcomes[0]) || outcomes[1] != nil || got[0] != "" || got[1] != "v" {
		t.Errorf("outcomes %v, and the keys have %q", outcomes, got)
	}
	for i, want := range []bool{false, true} {
		if happened, err := s.settle(t.Context(), attempts[i].token); happened != want || err != nil {
			t.Errorf("settling commit %d: %t, %v", i, happened, err)
		}
	}
}

// TestEndedContext ends the context of a commit while it waits, which removes it, and of one that is under way, which
// is awaited.
func TestEndedContext(t *testing.T) {
	url := postgres.Database(t)
	s := oneWorker(t, url, &trips{})
	g := shut(t, s, url)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() { waiting <- s.Commit(ctx, "acme", store.Batch{Put: put("waits", "v")}) }()
	awaitLength(s.commits, 1)
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("a commit that waited: %v", err)
	}
	g.open(t)

	if _, err := s.main.Exec(t.Context(), "DELETE FROM mneme_records"); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE mneme_records"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	underWay := make(chan error, 1)
	go func() { underWay <- s.Commit(ctx, "acme", store.Batch{Put: put("under way", "v")}) }()
	for started := false; !started; time.Sleep(time.Millisecond) { // until a worker has taken it
		s.commits.mu.Lock()
		started = s.commits.workers == 1 && len(s.commits.waiting) == 0
		s.commits.mu.Unlock()
	}
	cancel()
	select {
	case err := <-underWay:
		t.Errorf("a commit under way ended before its outcome was known: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-underWay; err != nil {
		t.Errorf("a commit under way: %v", err)
	}
	if got := read(t, s, "waits", "under way"); got[0] != "" || got[1] != "v" {
		t.Errorf("the keys have %q", got)
	}
}

// TestManyTenants commits and reads the same keys of several tenants in one transaction and one statement. Each tenant
// sees its own.
func TestManyTenants(t *testing.T) {
	underBoth(t, func(t *testing.T, database func(testing.TB) string) {
		url := database(t)
		s := oneWorker(t, url, &trips{})
		tenants := []string{"", "a", "ab", "b"}
		var calls []func() error
		for _, tenant := range tenants {
			mustCommitFor(t, s, tenant, store.Batch{Put: put("old", tenant)})
			calls = append(calls, func() error {
				return s.Commit(t.Context(), tenant, store.Batch{Expect: holds("old", tenant),
					Put: put("new", tenant), Delete: [][]byte{b("old")}})
			})
		}
		for i, err := range behind(t, s, url, calls...) {
			if err != nil {
				t.Errorf("tenant %q: %v", tenants[i], err)
			}
		}
		all := make([]*lookup, len(tenants))
		for i, tenant := range tenants {
			all[i] = &lookup{entry: newEntry(), tenant: b(tenant), keys: [][]byte{b("new"), b("old"), b("new")}}
		}
		s.lookUp(all)
		for i, l := range all {
			if err := <-l.done; err != nil {
				t.Fatal(err)
			}
			if string(l.values[0]) != tenants[i] || !bytes.Equal(l.values[2], l.values[0]) || l.values[0] == nil ||
				l.values[1] != nil {
				t.Errorf("tenant %q reads %q", tenants[i], l.values)
			}
		}
	})
}

func mustCommitFor(t *testing.T, s store.Store, tenant string, batch store.Batch) {
	t.Helper()
	if err := s.Commit(t.Context(), tenant, batch); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// TestLostFolds cuts connections while writers, each with a counter of its own, share transactions. Each writer learns
// the outcome of its own commits. Half of the counters are loose.
func TestLostFolds(t *testing.T) {
	const writers, steps = 16, 10
	cluster := postgres.Cluster(t)
	url := postgres.Database(t)
	direct := openURL(t, url)
	defer direct.Close()
	var armed atomic.Bool
	var sent atomic.Int64
	p := newProxy(t, cluster, func() cut {
		if n := sent.Add(1); armed.Load() && n%7 == 0 {
			return cut(1 + n/7%int64(inReply))
		}
		return nowhere
	})
	s := openURL(t, p.through(t, url))
	defer s.Close()
	armed.Store(true)
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			key := []string{"counter", "z"}[w%2] + strconv.Itoa(w)
			value, unknown := "", false
			for n := 1; n <= steps; n++ {
				expect := absent(key)
				if value != "" {
					expect = holds(key, value)
				}
				next := strings.Repeat("v", n)
				err := s.Commit(t.Context(), "acme", store.Batch{Expect: expect, Put: put(key, next)})
				switch {
				case err == nil:
					value, unknown = next, false
				case errors.Is(err, store.ErrUnknown):
					unknown = true
				case !errors.Is(err, store.ErrUnavailable):
					t.Errorf("writer %d, step %d, after an unknown outcome %t: %v", w, n, unknown, err)
					return
				}
				if unknown {
					value = read(t, direct, key)[0]
				} else if got := read(t, direct, key)[0]; got != value {
					t.Errorf("writer %d, step %d, %v: the counter has %d, acknowledged was %d", w, n, err, len(got), len(value))
				}
			}
		})
	}
	running.Wait()
}
