package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/hostile"
)

// TestCampaignNeighbours: while a tenant asks for one window after another with a module that takes all the resources
// it can, every request of another tenant is answered, and each of the attacker's steps ends with a documented outcome.
// The test prints the cost of the attack, and the neighbour's times as multiples of those in a quiet phase right
// before.
func TestCampaignNeighbours(t *testing.T) {
	root := start(t, t.TempDir()).client(t).as(rootKey)
	tenant := func(name string) *conversation {
		var made struct {
			AdminKey string `json:"admin_key"`
		}
		root.post("/api/v1/tenants", object{"id": name, "name": name}).want(201).into(&made)
		return converse(root.as(made.AdminKey), "p")
	}
	neighbour, attacker := tenant("neighbour"), tenant("attacker")
	for i := range 25 {
		id := fmt.Sprint("call", i)
		neighbour.turn("s", user("what comes next?"), calling(id, "look", "{}"), result(id, "the next one")).want(201)
	}
	big := strings.Repeat("some words that are cut ", 900<<10/24)
	attacker.turn("s", user(big), user(big)).want(201)
	for i := range hostile.TurnsBehind {
		id := fmt.Sprint("call", i)
		attacker.turn("s", user("what comes next?"), calling(id, "look", "{}"), result(id, "the next one")).want(201)
	}
	modules := hostile.Neighbours()
	short := []string{"spin-add", "grow-and-touch", "tokens-blanks", "plan-replace-words"}
	for _, m := range modules {
		if campaign.Long() || slices.Contains(short, m.Name) {
			attack(t, neighbour, attacker, m)
		}
	}
}

// attack runs one module against a neighbour and prints its line of the table.
func attack(t *testing.T, neighbour, attacker *conversation, m hostile.Neighbour) {
	const header = "%-22s %-15s %11s %9s %7s %7s %7s"
	requests, rushers := campaign.Size(20, 100), 4
	attacker.upload(m.Name, m.Build()).want(201)
	body := encodeJSON(t, object{"session_id": "s", "pipeline": []object{{"policy": m.Name}},
		"budget": object{"max_messages": 0, "max_tokens": 3000}})
	var window struct{ Pipeline []stepEnd }
	attacker.do("POST", attacker.path("/context"), body).want(200).into(&window)
	first := window.Pipeline[0]
	if !slices.Contains(namedOutcomes, first.Outcome) {
		t.Errorf("%s: outcome %q: %s", m.Name, first.Outcome, first.Detail)
	}
	measure := func() []time.Duration {
		times := make([]time.Duration, requests)
		for i := range times {
			began := time.Now()
			neighbour.post(neighbour.path("/context"), object{"session_id": "s"}).want(200)
			times[i] = time.Since(began)
		}
		slices.Sort(times)
		return times
	}
	measure()
	quiet := measure()
	var over atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range rushers {
		wg.Go(func() {
			for !over.Load() {
				// An attacker beyond its share may be asked to come back later.
				r, err := attacker.try("POST", attacker.path("/context"), body)
				if err != nil || r.status != 200 && r.status != 429 && r.status != 503 {
					t.Errorf("%s: status %d, %v", m.Name, r.status, err)
				}
				calls.Add(1)
			}
		})
	}
	loud := measure()
	over.Store(true)
	wg.Wait()
	if !headed.Swap(true) {
		fmt.Printf(header+"\n", "module", "outcome", "fuel", "ms", "calls", "x-p50", "x-p99")
	}
	ratio := func(part int) string {
		at := requests * part / 100
		return fmt.Sprintf("%.1f", float64(loud[at])/float64(quiet[at]))
	}
	fmt.Printf(header+"\n", m.Name, first.Outcome, fmt.Sprint(first.Fuel),
		fmt.Sprintf("%.1f", float64(first.Duration)/1000), fmt.Sprint(calls.Load()), ratio(50), ratio(99))
}

// headed is set once the first line of the table was printed.
var headed atomic.Bool

// stepEnd is how one step of a pipeline ended.
type stepEnd struct {
	Outcome, Detail string
	Fuel            uint64
	Duration        uint64 `json:"duration_us"`
}

// namedOutcomes are all outcomes of a step.
var namedOutcomes = []string{"ok", "fuel_exhausted", "trap", "depth", "memory", "bad_plan", "host_quota", "timeout",
	"author_error", "unavailable", "fallback"}
