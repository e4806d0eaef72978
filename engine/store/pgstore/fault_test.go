package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/pgstore/pgtest"
)

// counted counts the steps that writers took, by the acknowledgements they got.
type counted struct {
	done, refused, unknown atomic.Int64
}

// count increments a counter that the writers share until stop. Each step also writes a separate record.
func (c *counted) count(t *testing.T, s store.Store, writer int, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		res, err := s.Read(context.Background(), "acme", store.Query{Keys: [][]byte{b("counter")}})
		if err != nil {
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("Read: %v", err)
				return
			}
			continue
		}
		value, _ := strconv.Atoi(string(res.Keys[0].Value))
		err = s.Commit(context.Background(), "acme", store.Batch{
			Expect: []store.Expect{{Key: b("counter"), Value: res.Keys[0].Value}},
			Put:    put("counter", fmt.Sprint(value+1), fmt.Sprintf("step/%08d", value+1), fmt.Sprintf("%d/%d", writer, n)),
		})
		switch {
		case err == nil:
			c.done.Add(1)
		case errors.Is(err, store.ErrUnknown):
			c.unknown.Add(1)
		case errors.As(err, new(*store.ConflictError)):
		case errors.Is(err, store.ErrUnavailable):
			c.refused.Add(1)
		default:
			t.Errorf("Commit: %v", err)
			return
		}
	}
}

// await waits for so many more acknowledged steps.
func (c *counted) await(t *testing.T, steps int64) {
	for enough := c.done.Load() + steps; c.done.Load() < enough && !t.Failed(); {
		time.Sleep(time.Millisecond)
	}
}

// check compares the counter with the acknowledgements: every acknowledged step was taken once, no other except those
// with unknown outcome, and none in part.
func (c *counted) check(t *testing.T, s store.Store) {
	t.Helper()
	value, _ := strconv.Atoi(read(t, s, "counter")[0])
	res, err := s.Read(t.Context(), "acme", store.Query{Ranges: []store.Range{{From: b("step/"), To: b("step0")}}})
	if err != nil {
		t.Fatal(err)
	}
	done, unknown := int(c.done.Load()), int(c.unknown.Load())
	t.Logf("counter %d: %d acknowledged, %d refused, %d unknown", value, done, c.refused.Load(), unknown)
	if value < done || value > done+unknown {
		t.Errorf("the counter stands at %d after %d acknowledged and %d unknown steps", value, done, unknown)
	}
	takers := map[string]bool{}
	for _, it := range res.Ranges[0] {
		takers[string(it.Value)] = true
	}
	if len(res.Ranges[0]) != value || len(takers) != value {
		t.Errorf("%d records of %d steps for a counter of %d", len(res.Ranges[0]), len(takers), value)
	}
}

// TestLostAcknowledgements cuts connections at every point of a commit. Writers still learn the outcome.
func TestLostAcknowledgements(t *testing.T) {
	const writers, steps, each = 4, 180, 5
	cluster := postgres.Cluster(t)
	database := postgres.Database(t)
	direct := openURL(t, database)
	defer direct.Close()
	for _, mode := range []string{"cache_statement", "exec"} {
		t.Run(mode, func(t *testing.T) {
			mustCommit(t, direct, store.Batch{Put: put("counter", "0")})
			var cuts [inReply + 1]atomic.Int64
			var armed atomic.Bool
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(7, 7))
			p := newProxy(t, cluster, func() cut {
				mu.Lock()
				defer mu.Unlock()
				if !armed.Load() || random.IntN(6) > 0 {
					return nowhere
				}
				where := cut(1 + random.IntN(int(inReply)))
				cuts[where].Add(1)
				return where
			})
			s := openURL(t, p.through(t, database)+"&default_query_exec_mode="+mode)
			defer s.Close()
			armed.Store(true)
			var c counted
			stop := make(chan struct{})
			var running sync.WaitGroup
			for w := range writers {
				running.Go(func() { c.count(t, s, w, stop) })
			}
			c.await(t, steps)
			for where := beforeSent; where <= inReply; where++ {
				for cuts[where].Load() < each && !t.Failed() {
					time.Sleep(time.Millisecond)
				}
			}
			close(stop)
			running.Wait()
			armed.Store(false)
			c.check(t, direct)
			res, err := direct.Read(t.Context(), "acme", store.Query{Ranges: []store.Range{{KeysOnly: true}}})
			if err != nil {
				t.Fatal(err)
			}
			var all store.Batch
			for _, it := range res.Ranges[0] {
				all.Delete = append(all.Delete, it.Key)
			}
			mustCommit(t, direct, all)
		})
	}
}

// TestCrashes repeatedly crashes the database while writers use it through two stores.
func TestCrashes(t *testing.T) {
	const crashes, steps = 4, 200
	cluster, err := pgtest.Start()
	if errors.Is(err, pgtest.ErrNotInstalled) {
		postgres.Cluster(t) // decides whether that is a failure
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	database, err := cluster.Database()
	if err != nil {
		t.Fatal(err)
	}
	one, two := openURL(t, database), openURL(t, database)
	defer one.Close()
	defer two.Close()
	mustCommit(t, one, store.Batch{Put: put("counter", "0")})
	var c counted
	stop := make(chan struct{})
	var running sync.WaitGroup
	for w := range 8 {
		running.Go(func() { c.count(t, []*Store{one, two}[w%2], w, stop) })
	}
	for range crashes {
		c.await(t, steps)
		if err := cluster.Crash(); err != nil {
			t.Error(err)
		}
		if err := cluster.Up(); err != nil {
			t.Fatal(err)
		}
	}
	c.await(t, steps)
	close(stop)
	running.Wait()
	c.check(t, one)
}

// TestAway calls a store whose database is down: it returns an error in bounded time that says that nothing was
// written. When the database is back, so is the store.
func TestAway(t *testing.T) {
	cluster, err := pgtest.Start()
	if errors.Is(err, pgtest.ErrNotInstalled) {
		postgres.Cluster(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	database, err := cluster.Database()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{URL: database})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustCommit(t, s, store.Batch{Put: put("k", "1")})
	if err := cluster.Crash(); err != nil {
		t.Fatal(err)
	}
	s.patience = 200 * time.Millisecond
	_, err = s.Read(t.Context(), "acme", store.Query{Keys: [][]byte{b("k")}})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Read: %v", err)
	}
	err = s.Commit(t.Context(), "acme", store.Batch{Put: put("k", "2")})
	if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
		t.Errorf("Commit: %v", err)
	}
	err = s.Commit(t.Context(), "acme", store.Batch{Put: put("k", "2")}) // on a connection that was never made
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Commit: %v", err)
	}
	if err := cluster.Up(); err != nil {
		t.Fatal(err)
	}
	s.patience = DefaultPatience
	if got := read(t, s, "k")[0]; got != "1" {
		t.Errorf("%q is there", got)
	}
	mustCommit(t, s, store.Batch{Expect: holds("k", "1"), Put: put("k", "3")})
}

// TestPasswordsStayOut tries invalid URLs and looks for their password in the errors.
func TestPasswordsStayOut(t *testing.T) {
	for _, url := range []string{
		"postgres://mneme:hunter2@127.0.0.1:1/none", "postgres://mneme:hunter2@[bad/none", "postgres://mneme:hunter2@h:port/x",
		"postgres://mneme:hunter2@127.0.0.1/none?sslmode=never", "host=127.0.0.1 port=1 password=hunter2",
		"postgres://mneme@127.0.0.1:1/none?password=hunter2", "postgres://mneme:hunter2@127.0.0.1:1/none?pool_max_conns=x",
	} {
		s, err := Open(t.Context(), Options{URL: url, Patience: time.Millisecond})
		if err == nil {
			s.Close()
			t.Errorf("%s opened", url)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is in %q", err)
		}
	}
}
