package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store/pgstore/pgtest"
)

// cluster is several servers over one PostgreSQL, each with its own data folder.
type cluster struct {
	t        testing.TB
	postgres *pgtest.Cluster
	store    string // URL
	key      string // the admin key of tenant default
	nodes    []*node

	mu      sync.Mutex
	crashes []time.Time // of PostgreSQL
	retried atomic.Int64
}

// node is a server that may be stopped and started again, each time on another port.
type node struct {
	data string
	now  atomic.Pointer[process]
}

// postgresql is a database server for tests that do not crash it.
var postgresql = &pgtest.Shared{}

// newCluster starts n servers at once over an empty database. A test that crashes the database server must have its
// own.
func newCluster(t testing.TB, server *pgtest.Cluster, database string, n int) *cluster {
	t.Helper()
	c := &cluster{t: t, postgres: server, store: database}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			if p := n.now.Load(); p != nil {
				p.kill()
				if t.Failed() {
					t.Logf("the last lines of the server on %s:\n%s", n.data, p.log)
				}
			}
		}
	})
	folder := t.TempDir()
	for i := range n {
		c.nodes = append(c.nodes, &node{data: filepath.Join(folder, fmt.Sprint("server", i))})
	}
	c.startAll()
	return c
}

// startAll starts every node at the same moment. If the database is new, exactly one of them has the key.
func (c *cluster) startAll() {
	c.t.Helper()
	var group sync.WaitGroup
	for _, n := range c.nodes {
		group.Go(func() { c.start(n) })
	}
	group.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
	found := 0
	for _, n := range c.nodes {
		if key := n.now.Load().key; key != "" {
			c.key, found = key, found+1
		}
	}
	if found != 1 {
		c.t.Fatalf("%d servers of %d have an admin key", found, len(c.nodes))
	}
}

// stop kills all nodes.
func (c *cluster) stop() {
	for _, n := range c.nodes {
		n.now.Load().kill()
	}
}

// start starts a node and returns when it accepts requests.
func (c *cluster) start(n *node) {
	binary, err := mneme.build()
	if err != nil {
		c.t.Error(err)
		return
	}
	p, err := launch(binary, n.data, "--store", c.store)
	if err != nil {
		c.t.Error(err)
		return
	}
	n.now.Store(p)
}

// at returns a client of one node as it runs now.
func (c *cluster) at(i int) client {
	p := c.nodes[i%len(c.nodes)].now.Load()
	return client{t: c.t, url: p.url, key: c.key, log: p.log, http: &http.Client{Transport: transport,
		Timeout: patience}}
}

// send sends a request to one node after the other until one answers, like a client behind a load balancer. A request
// that must not be carried out twice has an Idempotency-Key.
func (c *cluster) send(at int, method, path string, body any, headers ...string) (reply, error) {
	for until := time.Now().Add(2 * patience); ; at++ {
		r, err := c.at(at).try(method, path, body, headers...)
		switch {
		case err == nil && r.status != http.StatusServiceUnavailable:
			return r, nil
		case time.Now().After(until):
			return r, fmt.Errorf("%s %s: no answer for %v: %d %s %v", method, path, 2*patience, r.status, r.body, err)
		}
		c.retried.Add(1)
		time.Sleep(10 * time.Millisecond)
	}
}

// crash stops PostgreSQL as a crash would, and starts it again.
func (c *cluster) crash(away time.Duration) {
	c.mu.Lock()
	c.crashes = append(c.crashes, time.Now())
	c.mu.Unlock()
	err := c.postgres.Crash()
	time.Sleep(away)
	if err = errors.Join(err, c.postgres.Up()); err != nil {
		c.t.Errorf("restarting PostgreSQL: %v", err)
	}
}

// mayBeLost reports whether a write at a given time that was not synced may be lost.
func (c *cluster) mayBeLost(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, crash := range c.crashes {
		if d := crash.Sub(at); d > -time.Second && d < 2*time.Second {
			return true
		}
	}
	return false
}

// TestServersStartTogether: of three servers that start at the same moment over an empty database, exactly one creates
// the tenant default, prints its key and stores it, and the key works on all three. After a restart, each has what it
// had before.
func TestServersStartTogether(t *testing.T) {
	t.Parallel()
	for range 3 {
		c := newCluster(t, postgresql.Cluster(t), postgresql.Database(t), 3)
		for i, n := range c.nodes {
			c.at(i).get("/api/v1/projects/default").want(200)
			_, err := os.Stat(filepath.Join(n.data, "admin.key"))
			if kept := err == nil; kept != (n.now.Load().key != "") {
				t.Errorf("server %d: admin.key is there: %t", i, kept)
			}
		}
		var keys struct{ Data []struct{ ID string } }
		c.at(0).get("/api/v1/keys").want(200).into(&keys)
		if len(keys.Data) != 1 {
			t.Errorf("tenant default has %d keys", len(keys.Data))
		}
		key := c.key
		c.stop()
		c.startAll()
		if c.key != key {
			t.Error("another start has another key")
		}
		c.stop()
	}
}

// TestStreamsAcrossServers: readers on one server soon get what is written on another, in order.
func TestStreamsAcrossServers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, postgresql.Cluster(t), postgresql.Database(t), 2)
	const board, entries = "/api/v1/boards/b", 5
	c.at(0).do("PUT", board+"/agents/lead", object{"lead": true}).want(201)
	for name, path := range map[string]string{"entries": "/memory/stream",
		"inbox": "/agents/lead/notifications/stream"} {
		type arrival struct {
			data string
			at   time.Time
		}
		came, ended := make(chan arrival, entries), make(chan error, 1)
		since := time.Now().UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano) // before the first entry is written
		go func() {
			_, err := c.at(1).listen(t.Context(), board+path+"?since="+since, "",
				func(e sseEvent) bool { came <- arrival{e.data, time.Now()}; return len(came) < entries })
			ended <- err
		}()
		for i := range entries {
			content := fmt.Sprintf("%s number %d", name, i)
			posted := time.Now()
			c.at(0).post(board+"/memory", object{"content": content, "is_chat": true}).want(201)
			select {
			case got := <-came:
				if !strings.Contains(got.data, content) {
					t.Fatalf("%s: event %s, want %q", name, got.data, content)
				}
				t.Logf("%s: after %v", name, got.at.Sub(posted).Round(time.Millisecond))
			case err := <-ended:
				t.Fatalf("%s: the stream ended: %v", name, err)
			case <-time.After(patience):
				t.Fatalf("%s: %q did not come", name, content)
			}
		}
	}
}

// TestBackupOfPostgreSQL takes a backup of a running server over PostgreSQL and restores it into a data folder, and
// into another database: everything is there, keys work, decisions replay, and verify finds no faults.
func TestBackupOfPostgreSQL(t *testing.T) {
	t.Parallel()
	c := newCluster(t, postgresql.Cluster(t), postgresql.Database(t), 1)
	own := converse(c.at(0), "s")
	for n := range 30 {
		own.post(own.path("/turns"), object{"session_id": "s", "messages": []object{user(fmt.Sprint("q", n)),
			assistant("a")}}).want(201)
	}
	var made struct {
		DecisionID string `json:"decision_id"`
	}
	own.post(own.path("/context"), object{"session_id": "s"}).want(200).into(&made)
	own.remember(object{"key": "m", "content": "a heron at the weir"})
	own.post("/api/v1/boards/b/memory", object{"content": "on the board"}).want(201)
	file, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
	succeeds(t, "backup", "--url", own.url, "--out", file)
	own.post(own.path("/turns"), object{"session_id": "s", "messages": []object{user("after the backup")}}).want(201)
	succeeds(t, "restore", "--in", file, "--data", restored)
	verified(t, restored)
	verifiedAt(t, "--store", c.store)
	fails(t, "already has Mneme's records", "restore", "--in", file, "--store", c.store)
	another := postgresql.Database(t)
	succeeds(t, "restore", "--in", file, "--store", another)
	verifiedAt(t, "--store", another)
	for name, store := range map[string]string{"embedded": "", "PostgreSQL": another} {
		t.Run(name, func(t *testing.T) {
			p := start(t, restored, "--store", store)
			there := converse(p.client(t).as(c.key), "s")
			var session struct{ Turns int }
			there.get(there.path("/sessions/s")).want(200).into(&session)
			if session.Turns != 30 {
				t.Errorf("%d turns came along, want 30", session.Turns)
			}
			var replay struct{ Equal bool }
			there.post(there.path("/decisions/"+made.DecisionID+"/replay"), nil).want(200).into(&replay)
			if !replay.Equal {
				t.Error("a decision replays to another window")
			}
			equal(t, "recall", there.recalled(object{"query": "heron"}), []string{"m"})
			var page boardPage
			there.get("/api/v1/boards/b/memory").want(200).into(&page)
			if page.Total != 1 {
				t.Errorf("%d entries came along on the board", page.Total)
			}
			p.stop(t)
		})
	}
}
