package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

func pair(key, value string) store.Batch {
	return store.Batch{Put: []store.Pair{{Key: []byte(key), Value: []byte(value)}}}
}

func mustCommit(t testing.TB, s store.Store, b store.Batch) {
	t.Helper()
	if err := s.Commit(t.Context(), "acme", b); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// read returns a key's value, "" if it is absent.
func read(t testing.TB, s store.Store, key string) string {
	t.Helper()
	res, err := s.Read(t.Context(), "acme", store.Query{Keys: [][]byte{[]byte(key)}})
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	return string(res.Keys[0].Value)
}

// gate holds every transaction of a database until it is let through, and counts them.
type gate struct {
	arrived, through chan struct{}
	passed           int
}

// hold puts a gate before the transactions of d, which must not have committed yet.
func hold(d *database) *gate {
	g := &gate{arrived: make(chan struct{}), through: make(chan struct{})}
	apply := d.apply
	d.apply = func(txn *badger.Txn, version uint64) error {
		g.arrived <- struct{}{}
		<-g.through
		g.passed++
		return apply(txn, version)
	}
	return g
}

func (g *gate) pass() {
	<-g.arrived
	g.through <- struct{}{}
}

// waitQueued returns once n batches wait for the committer.
func waitQueued(d *database, n int) {
	for len(d.queue) < n {
		runtime.Gosched()
	}
}

// TestFolding commits from many writers while one transaction is held up: all of them are in the second.
func TestFolding(t *testing.T) {
	for _, sort := range []string{"k", "z"} {
		s := open(t, t.TempDir())
		defer s.Close()
		d := s.database(sort == "z")
		g := hold(d)
		const writers = 64
		results := make(chan error, writers+1)
		go func() { results <- s.Commit(t.Context(), "acme", pair(sort+"first", "0")) }()
		<-g.arrived
		for w := range writers {
			go func() {
				b := pair(fmt.Sprint(sort, w), "1")
				// Only one of the combined batches can get the number: its precondition is checked after the earlier
				// ones.
				b.Expect = []store.Expect{{Key: []byte(sort + "winner")}}
				b.Put = append(b.Put, pair(sort+"winner", fmt.Sprint(w)).Put...)
				results <- s.Commit(t.Context(), "acme", b)
			}()
		}
		waitQueued(d, writers)
		g.through <- struct{}{}
		g.pass()
		won := 0
		for range writers + 1 {
			switch err := <-results; {
			case err == nil:
				won++
			case !errors.As(err, new(*store.ConflictError)):
				t.Errorf("Commit: %v", err)
			}
		}
		if won != 2 || g.passed != 2 {
			t.Errorf("%d batches in %d transactions succeeded, want 2 in 2", won, g.passed)
		}
		winner := read(t, s, sort+"winner")
		for w := range writers {
			got := read(t, s, fmt.Sprint(sort, w))
			if (got == "1") != (winner == fmt.Sprint(w)) {
				t.Errorf("writer %d left %q though %s won", w, got, winner)
			}
		}
	}
}

// TestFoldingStopsAtTheLimit queues more than one transaction holds.
func TestFoldingStopsAtTheLimit(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	g := hold(s.main)
	results := make(chan error, 4)
	go func() { results <- s.Commit(t.Context(), "acme", pair("first", "0")) }()
	<-g.arrived
	value := make([]byte, store.MaxValue)
	for w := range 3 {
		go func() {
			var b store.Batch
			for i := range store.MaxBatch/store.MaxValue - 1 {
				b.Put = append(b.Put, store.Pair{Key: fmt.Append(nil, w, i), Value: value})
			}
			results <- s.Commit(t.Context(), "acme", b)
		}()
	}
	waitQueued(s.main, 3)
	g.through <- struct{}{}
	for range 3 {
		g.pass()
	}
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	res, err := s.Read(t.Context(), "acme", store.Query{Ranges: []store.Range{{}}})
	if want := 1 + 3*(store.MaxBatch/store.MaxValue-1); err != nil || len(res.Ranges[0]) != want {
		t.Errorf("%d pairs are there, want %d; error %v", len(res.Ranges[0]), want, err)
	}
}

// TestContext ends contexts before and after their batches are taken.
func TestContext(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	g := hold(s.main)
	ctx, cancel := context.WithCancel(t.Context())
	taken, queued := make(chan error, 1), make(chan error, 1)
	go func() { taken <- s.Commit(ctx, "acme", pair("taken", "1")) }()
	<-g.arrived
	go func() { queued <- s.Commit(ctx, "acme", pair("queued", "1")) }()
	waitQueued(s.main, 1)
	cancel()
	if err := <-queued; !errors.Is(err, context.Canceled) {
		t.Errorf("a batch still queued: %v", err)
	}
	g.through <- struct{}{}
	if err := <-taken; err != nil {
		t.Errorf("a batch taken up: %v", err)
	}
	go g.pass()
	mustCommit(t, s, pair("after", "1"))
	if read(t, s, "taken") != "1" || read(t, s, "queued") != "" {
		t.Error("taken must be stored, queued must not")
	}
}

// TestReadDoesNotWait reads while a commit is being written to disk.
func TestReadDoesNotWait(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	mustCommit(t, s, pair("k", "1"))
	g := hold(s.main)
	done := make(chan error)
	go func() { done <- s.Commit(t.Context(), "acme", pair("k", "2")) }()
	<-g.arrived
	if got := read(t, s, "k"); got != "1" {
		t.Errorf("before the commit is durable a read answers %q", got)
	}
	g.through <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, "k"); got != "2" {
		t.Errorf("after the commit a read answers %q", got)
	}
}

// TestFailStop lets a commit fail: nothing more is written, in either database, and reads continue.
func TestFailStop(t *testing.T) {
	cause := errors.New("input/output error")
	for name, fails := range map[string]func(*badger.Txn, uint64) error{
		"error": func(*badger.Txn, uint64) error { return cause },
		"panic": func(*badger.Txn, uint64) error { panic(cause) },
	} {
		t.Run(name, func(t *testing.T) { failStop(t, fails, cause) })
	}
}

func failStop(t *testing.T, fails func(*badger.Txn, uint64) error, cause error) {
	dir := t.TempDir()
	s := open(t, dir)
	mustCommit(t, s, pair("k", "1"))
	apply := s.main.apply
	s.main.apply = fails
	if err := s.Failed(); err != nil {
		t.Fatalf("Failed: %v", err)
	}
	if err := s.Commit(t.Context(), "acme", pair("k", "2")); !errors.Is(err, store.ErrFailed) {
		t.Errorf("the failing commit: %v", err)
	}
	if err := s.Failed(); !errors.Is(err, store.ErrFailed) || !errors.Is(err, cause) {
		t.Errorf("Failed: %v", err)
	}
	s.main.apply = apply
	for _, key := range []string{"k", "z"} {
		if err := s.Commit(t.Context(), "acme", pair(key, "3")); !errors.Is(err, store.ErrFailed) {
			t.Errorf("a commit of %q afterwards: %v", key, err)
		}
	}
	if got := read(t, s, "k"); got != "1" {
		t.Errorf("a read afterwards answers %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	defer s.Close()
	mustCommit(t, s, pair("k", "4"))
}
