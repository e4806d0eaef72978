package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// TestCampaignKills kills the server while many kinds of writers are active, round after round over one data folder.
// After each kill, verify finds no faults, and every request acknowledged to a witness has taken effect exactly once.
// So has the request that each witness had in flight, after it is sent again.
//
//	scripts/campaigns -run Kills ./server/e2e
func TestCampaignKills(t *testing.T) {
	t.Parallel()
	seed, rounds := campaign.Seed(t), campaign.Size(4, 200)
	data, summaries := t.TempDir(), provider(t)
	met := map[string]bool{}
	var all witnesses
	requests := int64(0)
	for round := range rounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		server := summarising(t, data, summaries)
		admin := server.client(t)
		admin.do("PATCH", "/api/v1/projects/default/settings", object{"summary_enabled": true,
			"daily_memory_days": 1}).want(200)
		if round == 0 {
			for n := range 100 { // enough to be put into blocks, which the writers then change
				admin.post("/api/v1/projects/default/memories", object{"key": fmt.Sprint("k", n),
					"content": "hello word7 word8"}).want(201)
			}
			summarisedSession(t, admin)
		}
		if round%witnessedRounds == 0 { // reading what all witnesses wrote would take longer and longer
			all = testify(admin, round/witnessedRounds)
		}
		all.check(admin)

		var done atomic.Int64
		enough, limit := make(chan struct{}), int64(100+random.IntN(900))
		count := func() {
			if done.Add(1) == limit {
				close(enough)
			}
		}
		var group sync.WaitGroup
		for w := range 5 {
			random := rand.New(rand.NewPCG(random.Uint64(), uint64(w)))
			group.Go(func() {
				c := server.client(t)
				for {
					change := c.anything
					if random.IntN(2) == 0 {
						change = c.anythingShared
					}
					if change(random) != nil {
						return // the server is gone
					}
					count()
				}
			})
		}
		for _, w := range all {
			group.Go(func() {
				c := server.client(t)
				for w.act(c) {
					count()
				}
			})
		}
		<-enough
		server.kill()
		group.Wait()
		requests += done.Load()
		for kind := range verifiedAt(t, stores.where(data)...) {
			met[kind] = true
		}
		if t.Failed() {
			t.Fatalf("round %d of %d", round+1, rounds)
		}
	}
	all.check(summarising(t, data, summaries).client(t))
	for _, kind := range strings.Fields(`session body summary idempotent policy memory memory_version memory_time
		recall_document recall_block recall_memory board board_entry board_postings board_agent board_notice key_use
		retention usage audit`) {
		// A shared database is too slow to store many memories, and so to make blocks, before the kill.
		if !met[kind] && (stores.start == nil || !strings.HasPrefix(kind, "recall_")) {
			t.Errorf("no %s was met: the test tells little", kind)
		}
	}
	t.Logf("%d kills, %d requests answered", rounds, requests)
}

// summarisedSession stores a session, and waits for its summary. On a busy machine none of the writers' sessions may have
// one before the kill.
func summarisedSession(t *testing.T, c client) {
	t.Helper()
	turns := []object{}
	for n := range 100 {
		turns = append(turns, object{"turn": n + 1, "messages": []object{
			{"format": "openai.chat", "message": user(fmt.Sprint("imported ", n))}}})
	}
	c.post("/api/v1/projects/default/sessions/import", object{"version": 1, "session": object{"id": "summarised"},
		"turns": turns}).want(201)
	c.post("/api/v1/projects/default/context", object{"session_id": "summarised"}).want(200)
	await(t, func() bool {
		var s struct{ Summary *string }
		c.get("/api/v1/projects/default/sessions/summarised").want(200).into(&s)
		return s.Summary != nil
	}, func() string { return "the session has no summary" })
}

// witnessedRounds is the number of rounds in which the same witnesses write.
const witnessedRounds = 10

// witness sends requests one after another and knows the effect that each must have. All of its requests have an
// Idempotency-Key, so that a request that a kill left without an answer can be sent again.
type witness struct {
	place, name string
	sent        int // requests acknowledged
	decision    string
}

type witnesses []*witness

// testify returns witnesses whose sessions, memories and entries nobody else writes to.
func testify(c client, place int) (all witnesses) {
	c.do("PUT", fmt.Sprint("/api/v1/projects/witness", place), object{}).want(201)
	c.do("PUT", fmt.Sprint("/api/v1/boards/witness", place), object{}).want(201)
	for n := range 4 {
		all = append(all, &witness{place: fmt.Sprint("witness", place), name: fmt.Sprint("w", n)})
	}
	return all
}

// text returns the text of a witness's n-th request.
func (w *witness) text(n int) string { return fmt.Sprintf("%s says %d", w.name, n) }

// act sends the next request, of five kinds in turn. It returns false if the server is gone.
func (w *witness) act(c client) bool {
	text, project := w.text(w.sent), "/api/v1/projects/"+w.place
	turn := func(session string) (string, object) {
		return project + "/turns", object{"session_id": session, "messages": []object{
			user(text), calling(text, "f", "{}"), result(text, text), assistant(text)}}
	}
	var path string
	var body object
	switch w.sent % 5 {
	case 0:
		path, body = turn(w.name)
	case 1:
		path, body = turn("shared")
	case 2:
		path, body = project+"/memories", object{"key": w.name, "content": text}
	case 3:
		path, body = "/api/v1/boards/"+w.place+"/memory", object{"content": text, "is_chat": true}
	case 4:
		path, body = project+"/context", object{"session_id": w.name}
	}
	r, err := c.patient("POST", path, body, "Idempotency-Key", w.place+text)
	if err != nil {
		return false
	}
	if r.status/100 != 2 {
		c.t.Errorf("%s: %d %s", r.what, r.status, r.body)
		return false
	}
	if w.sent%5 == 4 {
		var window struct {
			DecisionID string `json:"decision_id"`
		}
		if err := json.Unmarshal(r.body, &window); err != nil {
			c.t.Errorf("%s: %v", r.what, err)
		}
		w.decision = window.DecisionID
	}
	w.sent++
	return true
}

// said returns the texts of the acknowledged requests of one kind, in order.
func (w *witness) said(kind int) (texts []string) {
	for n := kind; n < w.sent; n += 5 {
		texts = append(texts, w.text(n))
	}
	return texts
}

// check repeats the requests that were in flight, and compares what is stored with what was acknowledged.
func (all witnesses) check(c client) {
	c.t.Helper()
	for _, w := range all {
		if !w.act(c) {
			c.t.Fatalf("%s: the server is gone", w.name)
		}
	}
	place := all[0].place
	project := "/api/v1/projects/" + place
	var shared []string
	entries := map[string][]string{}
	for offset, total := 0, 1; offset < total; offset += 100 {
		var page boardPage
		path := fmt.Sprintf("/api/v1/boards/%s/memory?order=asc&limit=100&offset=%d", place, offset)
		c.get(path).want(200).into(&page)
		for _, e := range page.Items {
			name, _, _ := strings.Cut(e.Content, " ")
			entries[name] = append(entries[name], e.Content)
		}
		total = page.Total
	}
	for _, w := range all {
		equal := func(what string, got, want []string) {
			if !slices.Equal(got, want) {
				c.t.Errorf("%s of %s in %s: stored %q, acknowledged %q", what, w.name, place, got, want)
			}
		}
		if w.sent > 0 {
			equal("turns", stored(c.t, c, project+"/sessions/"+w.name), w.said(0))
		}
		shared = append(shared, w.said(1)...)
		equal("entries", entries[w.name], w.said(3))
		if told := w.said(2); len(told) > 0 {
			var memory struct{ Content string }
			c.get(project + "/memories/" + w.name).want(200).into(&memory)
			equal("memory", []string{memory.Content}, told[len(told)-1:])
		}
		if w.decision != "" {
			c.post(project+"/decisions/"+w.decision+"/replay", nil).want(200)
		}
	}
	if len(shared) > 0 {
		got := stored(c.t, c, project+"/sessions/shared")
		slices.Sort(got)
		slices.Sort(shared)
		if !slices.Equal(got, shared) {
			c.t.Errorf("shared turns: stored %q, acknowledged %q", got, shared)
		}
	}
}
