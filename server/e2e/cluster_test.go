package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store/pgstore/pgtest"
	"github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

const (
	clusterTalkers = 4
	clusterReaders = 6
	clusterBoard   = "/api/v1/boards/cluster"
)

// clusterRun is what a cluster's clients know: everything that was acknowledged, and nothing else.
type clusterRun struct {
	*cluster
	seed    uint64        // determines the failures and the clients' requests
	lasting time.Duration // how long the failures last
	calm    chan struct{} // closed when the failures are over

	mu        sync.Mutex
	shared    map[int]string // turns of the session that all clients write to
	contents  map[string]bool
	decisions []decidedAt
	histories map[string]*history // by session
	windows   atomic.Int64
	turns     atomic.Int64
	recalls   atomic.Int64
}

type decidedAt struct {
	id string
	at time.Time
}

// TestCampaignCluster causes failures of three servers over one PostgreSQL while clients send turns, windows, memories
// and entries to all of them: servers are killed, stopped and started again, and PostgreSQL crashes. No acknowledged
// turn is lost or stored twice, each session has one order, all windows are valid, every reader sees each entry once,
// and verify finds no faults. In the long form the failures last ten minutes. The test runs over PostgreSQL, and over a
// database that claims to be another product, where commits are isolated in another way.
func TestCampaignCluster(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) { campaignCluster(t, (*pgtest.Shared).Database) })
	t.Run("relative", func(t *testing.T) { campaignCluster(t, (*pgtest.Shared).Relative) })
}

func campaignCluster(t *testing.T, database func(*pgtest.Shared, testing.TB) string) {
	t.Parallel()
	own := &pgtest.Shared{}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &clusterRun{cluster: newCluster(t, own.Cluster(t), database(own, t), 3), seed: campaign.Seed(t),
		lasting: time.Duration(campaign.Size(6, 600)) * time.Second, calm: make(chan struct{}),
		shared: map[int]string{}, contents: map[string]bool{}, histories: map[string]*history{}}
	c.at(0).do("PUT", clusterBoard, object{}).want(201)
	told := c.at(0).get("/metrics")
	if !strings.Contains(string(told.body), "\nmneme_store_takes_commits 1\n") || told.header.Get("Mneme-Epoch") == "" {
		t.Errorf("the server tells nothing of its database: epoch %q, metrics\n%s", told.header.Get("Mneme-Epoch"),
			told.body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), c.lasting+4*patience)
	defer cancel()
	seen := make([][]string, clusterReaders)
	enough := make(chan struct{})
	var talking, reading sync.WaitGroup
	for i := range clusterTalkers {
		talking.Go(func() { c.talk(i) })
	}
	for i := range clusterReaders {
		reading.Go(func() { seen[i] = c.read(ctx, i, enough) })
	}
	c.trouble()
	close(c.calm)
	talking.Wait()
	want := c.entries()
	close(enough)
	reading.Wait()
	for i := range seen {
		if !slices.Equal(seen[i], want) {
			t.Errorf("reader %d saw %d events, want %d, each once and in order", i, len(seen[i]), len(want))
		}
	}
	c.checkSessions()
	c.checkDecisions()
	file, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
	succeeds(t, "backup", "--url", c.at(0).url, "--out", file)
	succeeds(t, "restore", "--in", file, "--data", restored)
	verified(t, restored)
	verifiedAt(t, "--store", c.store)
	t.Logf("seed %d: %d turns, %d windows, %d recalls, %d entries for %d readers, %d requests sent again, %d "+
		"crashes of PostgreSQL",
		c.seed, c.turns.Load(), c.windows.Load(), c.recalls.Load(), len(want), clusterReaders, c.retried.Load(),
		len(c.crashes))
}

func (c *clusterRun) random(of uint64) *rand.Rand { return rand.New(rand.NewPCG(c.seed, of)) }

func (c *clusterRun) over() bool {
	select {
	case <-c.calm:
		return true
	default:
		return c.t.Failed()
	}
}

// trouble causes failures for the given time, each kind at least once, and ends with all servers running.
func (c *clusterRun) trouble() {
	r := c.random(0)
	until := time.Now().Add(c.lasting)
	pause := func(longest time.Duration) { time.Sleep(time.Duration(r.Int64N(int64(longest)))) }
	kinds := []func(){
		func() { // one server dies
			n := c.nodes[r.IntN(len(c.nodes))]
			n.now.Load().kill()
			pause(500 * time.Millisecond)
			c.start(n)
		},
		func() { c.crash(time.Duration(r.IntN(300)) * time.Millisecond) },
		func() { // one server is replaced
			n := c.nodes[r.IntN(len(c.nodes))]
			old := n.now.Load()
			_ = old.cmd.Process.Signal(syscall.SIGTERM)
			<-old.gone
			c.start(n)
		},
		func() { // all servers die at once
			n := c.nodes[r.IntN(len(c.nodes))]
			n.now.Load().kill()
			c.crash(time.Duration(r.IntN(2000)) * time.Millisecond)
			c.start(n)
		},
	}
	for i := 0; i < len(kinds) || time.Now().Before(until); i++ {
		pause(2 * time.Second)
		if i < len(kinds) {
			kinds[i]()
		} else {
			kinds[r.IntN(len(kinds))]()
		}
		if c.t.Failed() {
			return
		}
	}
}

// talk is one client. It talks in one session of its own after another, and between these turns it posts to the shared
// session, stores memories, and writes to the board.
func (c *clusterRun) talk(i int) {
	r := c.random(100 + uint64(i))
	for n := 0; !c.over(); {
		session := fmt.Sprintf("own-%d-%d", i, n)
		h := &history{pipeline: []string{"delegation-filter", "tool-result-clear", "summarise", "tool-pair-trim"}}
		c.mu.Lock()
		c.histories[session] = h
		c.mu.Unlock()
		transcript := hard.Generate(hard.Knobs{Seed: c.seed<<32 + uint64(n<<8+i),
			Format:   hard.Formats()[r.IntN(3)],
			Messages: 800, Delegations: true})
		viewers := append(transcript.Delegations()[:1], "")
		for _, turn := range transcript.Turns {
			if c.over() {
				return
			}
			var answer turnAnswer
			if !c.say(r, turnBody(session, turn), fmt.Sprintf("%s turn %d", session, turn.Number), &answer) {
				return
			}
			if fault := h.take(turn, answer); fault != "" {
				c.t.Errorf("session %s turn %d: %s", session, turn.Number, fault)
				return
			}
			switch n++; n % 4 {
			case 0:
				c.window(r, h, session, randomAsk(r, viewers))
			case 1:
				c.writeShared(r, fmt.Sprintf("writer %d turn %d", i, n))
			case 2:
				c.remember(r, i, n)
			case 3:
				c.writeEntry(r, fmt.Sprintf("writer %d entry %d", i, n))
			}
		}
	}
}

// say posts a turn, sometimes to two servers at once; both must answer with the same turn.
func (c *clusterRun) say(r *rand.Rand, body any, key string, answer *turnAnswer) bool {
	encoded := encodeJSON(c.t, body)
	at := r.IntN(len(c.nodes))
	second := make(chan string, 1)
	twice := r.IntN(8) == 0
	if twice {
		go func() {
			got, err := c.send(at+1, "POST", "/api/v1/projects/default/turns", encoded, "Idempotency-Key", key)
			second <- fmt.Sprintf("%d %s %v", got.status, got.body, err)
		}()
	}
	got, err := c.send(at, "POST", "/api/v1/projects/default/turns", encoded, "Idempotency-Key", key)
	if err != nil || got.status != 201 || json.Unmarshal(got.body, answer) != nil {
		c.t.Errorf("a turn ends with %d %s %v", got.status, got.body, err)
		return false
	}
	if twice {
		if first, again := fmt.Sprintf("%d %s %v", got.status, got.body, err), <-second; again != first {
			c.t.Errorf("one turn was answered with\n%s and\n%s", first, again)
		}
	}
	c.turns.Add(1)
	return true
}

func (c *clusterRun) writeShared(r *rand.Rand, text string) {
	var answer turnAnswer
	body := object{"session_id": "shared", "messages": []object{
		user(text), calling(text, "f", "{}"), result(text, text), assistant(text)}}
	if !c.say(r, body, text, &answer) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.shared[answer.Turn]; other != "" {
		c.t.Errorf("turn %d was given to %q and %q", answer.Turn, other, text)
	}
	c.shared[answer.Turn] = text
}

// window asks any server for a window and checks it. Servers and databases share the processors here, so a policy may
// run out of time. Then it asks for the window again, up to five times.
func (c *clusterRun) window(r *rand.Rand, h *history, session string, a ask) {
	at := time.Now()
	got, err := c.send(r.IntN(len(c.nodes)), "POST", "/api/v1/projects/default/context", a.body(session))
	for n := 1; n < 5 && err == nil && bytes.Contains(got.body, []byte(`"outcome":"timeout"`)); n++ {
		got, err = c.send(r.IntN(len(c.nodes)), "POST", "/api/v1/projects/default/context", a.body(session))
	}
	if err != nil {
		c.t.Error(err)
		return
	}
	got.t = c.t
	var faults []string
	var w window
	switch got.status {
	case 422:
		var p problem
		if err := json.Unmarshal(got.body, &p); err != nil || p.Code != "budget_too_small" {
			c.t.Errorf("a window ends with %s", got.body)
			return
		}
		faults = checkRefusal(h, a, p)
	case 200:
		if err := json.Unmarshal(got.body, &w); err != nil {
			c.t.Error(err)
			return
		}
		faults = check(h, a, &w)
		c.mu.Lock()
		c.decisions = append(c.decisions, decidedAt{w.DecisionID, at}, decidedAt{w.DecisionID, time.Now()})
		c.mu.Unlock()
	default:
		c.t.Errorf("a window ends with %d %s", got.status, got.body)
		return
	}
	c.windows.Add(1)
	if len(faults) > 0 {
		c.t.Errorf("session %s turn %d, %s:\n  %s\n%s", session, h.turns, encodeJSON(c.t, a.body(session)),
			strings.Join(faults, "\n  "), clip(string(got.body), 3000))
	}
}

// remember stores a memory and forgets an earlier one. Once it is answered, every server must find the present memories
// and no others.
func (c *clusterRun) remember(r *rand.Rand, i, n int) {
	const path = "/api/v1/projects/default/memories"
	name := func(n int) string { return fmt.Sprintf("m-%d-%d", i, n) }
	word := func(n int) string { return fmt.Sprintf("heron%dx%d", i, n) }
	status := func(want ...int) func(got reply, err error) {
		return func(got reply, err error) {
			if err != nil || !slices.Contains(want, got.status) {
				c.t.Errorf("%s: %d %s %v", got.what, got.status, got.body, err)
			}
		}
	}
	any := func() int { return r.IntN(len(c.nodes)) }
	status(201)(c.send(any(), "POST", path, object{"key": name(n), "content": "a " + word(n) + " at the weir"},
		"Idempotency-Key", name(n)))
	gone := n - 8
	if gone >= 2 {
		status(204, 404)(c.send(any(), "DELETE", path+"/"+name(gone), nil)) // 404: it was forgotten, but the answer was lost
	}
	for _, look := range []struct {
		n    int
		want []string
	}{{n, []string{name(n)}}, {max(gone, 0), nil}} {
		got, err := c.send(any(), "POST", path+"/recall", object{"query": word(look.n)})
		var found struct{ Data []struct{ Key string } }
		if err != nil || got.status != 200 || json.Unmarshal(got.body, &found) != nil {
			c.t.Errorf("recall ends with %d %s %v", got.status, got.body, err)
			return
		}
		var keys []string
		for _, hit := range found.Data {
			keys = append(keys, hit.Key)
		}
		if !slices.Equal(keys, look.want) {
			c.t.Errorf("%q finds %v, want %v", word(look.n), keys, look.want)
		}
		c.recalls.Add(1)
	}
}

func (c *clusterRun) writeEntry(r *rand.Rand, content string) {
	got, err := c.send(r.IntN(len(c.nodes)), "POST", clusterBoard+"/memory",
		object{"content": content, "is_chat": true},
		"Idempotency-Key", content)
	if err != nil || got.status != 201 {
		c.t.Errorf("an entry ends with %d %s %v", got.status, got.body, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.contents[content] = true
}

// read follows the board on one server after another until it has seen all entries, and continues each time after the
// last event that it got.
func (c *clusterRun) read(ctx context.Context, i int, enough <-chan struct{}) (seen []string) {
	r := c.random(200 + uint64(i))
	last, all := "", func() bool {
		select {
		case <-enough:
			return len(seen) >= len(c.contents) // after the end of all changes
		default:
			return false
		}
	}
	for at := i; ctx.Err() == nil && !all(); at++ {
		left := 1 + r.IntN(40)
		some, stop := context.WithTimeout(ctx, time.Second+time.Duration(r.Int64N(int64(4*time.Second))))
		_, _ = c.at(at).listen(some, clusterBoard+"/memory/stream?since=2026-01-01T00:00:00Z", last,
			func(e sseEvent) bool {
				last = e.id
				seen = append(seen, e.id)
				left--
				return left > 0
			})
		stop()
		time.Sleep(10 * time.Millisecond)
	}
	return seen
}

// entries returns the ids of the board's entries, which are those acknowledged, and checks that every server lists
// them.
func (c *clusterRun) entries() (ids []string) {
	for i := range c.nodes {
		var got []string
		contents := map[string]bool{}
		for {
			var page boardPage
			c.at(i).get(fmt.Sprintf("%s/memory?order=asc&limit=100&offset=%d", clusterBoard,
				len(got))).want(200).into(&page)
			for _, e := range page.Items {
				got = append(got, e.ID)
				contents[e.Content] = true
			}
			if len(page.Items) == 0 {
				break
			}
		}
		if len(got) != len(c.contents) || len(contents) != len(c.contents) || !slices.IsSorted(got) {
			c.t.Errorf("server %d: %d entries, %d different, %d were acknowledged", i, len(got), len(contents),
				len(c.contents))
		}
		if ids != nil && !slices.Equal(got, ids) {
			c.t.Errorf("server %d lists other entries than another one", i)
		}
		ids = got
	}
	return ids
}

// checkSessions reads every session completely on every server: it must have the acknowledged turns in order, and no
// others.
func (c *clusterRun) checkSessions() {
	for i := range c.nodes {
		for session, h := range c.histories {
			if len(h.ids) == 0 { // the time was up before its first turn
				continue
			}
			var got []string
			for cursor := ""; ; {
				var page struct {
					Data       []struct{ ID string }
					NextCursor *string `json:"next_cursor"`
				}
				path := fmt.Sprintf("/api/v1/projects/default/sessions/%s/messages?limit=100&order=asc%s", session,
					cursor)
				c.at(i).get(path).want(200).into(&page)
				for _, m := range page.Data {
					got = append(got, m.ID)
				}
				if page.NextCursor == nil {
					break
				}
				cursor = "&cursor=" + *page.NextCursor
			}
			if !slices.Equal(got, h.ids) {
				c.t.Errorf("server %d: session %s has %d messages, %d were acknowledged", i, session, len(got),
					len(h.ids))
			}
		}
		got := stored(c.t, c.at(i), "/api/v1/projects/default/sessions/shared")
		for n, text := range got {
			if c.shared[n+1] != text {
				c.t.Errorf("server %d: shared turn %d is %q, acknowledged was %q", i, n+1, text, c.shared[n+1])
			}
		}
		if len(got) != len(c.shared) {
			c.t.Errorf("server %d: %d shared turns, %d were acknowledged", i, len(got), len(c.shared))
		}
	}
}

// checkDecisions replays the decisions, each on some server. Those of the last moments before a crash of PostgreSQL may
// be gone.
func (c *clusterRun) checkDecisions() {
	r := c.random(1)
	gone := 0
	for n := 0; n < len(c.decisions); n += 2 {
		asked, answered := c.decisions[n], c.decisions[n+1]
		got := c.at(r.IntN(len(c.nodes))).post("/api/v1/projects/default/decisions/"+asked.id+"/replay", nil)
		var replay struct{ Equal bool }
		if got.status != 200 && (c.mayBeLost(asked.at) || c.mayBeLost(answered.at)) {
			gone++
			continue
		}
		got.want(200).into(&replay)
		if !replay.Equal {
			c.t.Errorf("decision %s replays to another window", asked.id)
		}
	}
	c.t.Logf("%d decisions, of which %d were lost with PostgreSQL", len(c.decisions)/2, gone)
}
