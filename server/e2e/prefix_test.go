package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	size "github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// kept is what windows of one format and budget have in common with the previous windows.
type kept struct {
	windows, cuts int
	share, fill   float64 // sums
	cutting       int     // windows that left something out; fill is summed over them
}

func (k *kept) String() string {
	return fmt.Sprintf("%d windows, share %.3f, %d cuts, fill %.2f over %d that leave something out", k.windows,
		k.share/float64(max(k.windows, 1)), k.cuts, k.fill/float64(max(k.cutting, 1)), k.cutting)
}

// prefixes sums what windows share, by format and budget.
type prefixes struct {
	mu   sync.Mutex
	sums map[string]*kept
}

// follower returns a function that compares each of a session's windows with the previous one.
func (p *prefixes) follower(t testing.TB, kind string, from int) func(modelCall, reply) {
	last := map[string][]byte{}
	return func(call modelCall, answer reply) {
		t.Helper()
		if answer.status == 422 {
			answer.wantCode(422, "budget_too_small")
			return
		}
		var w window
		answer.want(200).into(&w)
		key := fmt.Sprintf("%s, %d messages, %d tokens, %s", kind, call.bounds[0], call.bounds[1], call.format)
		now := promptOf(&w)
		before, known := last[key]
		last[key] = now
		if !known || call.turn <= from {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		k := p.sums[key]
		if k == nil {
			k = new(kept)
			p.sums[key] = k
		}
		same := 0
		for same < min(len(before), len(now)) && before[same] == now[same] {
			same++
		}
		k.windows++
		k.share += float64(same) / float64(len(before))
		if same < len(before)*9/10 {
			k.cuts++
		}
		if slices.ContainsFunc(w.Report, func(r row) bool { return r.Action == "drop" }) {
			k.cutting++
			k.fill += max(float64(w.Usage.HistoryMessages)/float64(call.bounds[0]),
				float64(w.Usage.Tokens-w.Usage.SystemTokens)/float64(call.bounds[1]))
		}
	}
}

// promptOf returns a window as one text, in the order in which a provider reads it.
func promptOf(w *window) []byte {
	out := []byte(w.System)
	for _, m := range w.Messages {
		out = append(append(out, m...), ',')
	}
	return out[:len(out)-1]
}

// long returns a turn of 60 tool steps that follows the turns of recorded sessions.
func long(t testing.TB, number int) hard.Turn {
	t.Helper()
	input := []json.RawMessage{json.RawMessage(`{"role":"user","content":"Go through every booking, one by one."}`)}
	for i := range 60 {
		result := ""
		for j := range 60 + i*37%110 {
			result += fmt.Sprintf("leg %d: seat %d. ", j, i*j)
			if len(result) > 600 {
				break
			}
		}
		input = append(input, json.RawMessage(fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d",
			"type":"function","function":{"name":"get_booking","arguments":"{\"id\":%d}"}}]}`, i, i)),
			json.RawMessage(fmt.Sprintf(`{"role":"tool","tool_call_id":"call_%d","content":%q}`, i, result)))
	}
	input = append(input, json.RawMessage(`{"role":"assistant","content":"Done."}`))
	made, err := hard.Recorded(input)
	if err != nil || len(made.Turns) != 1 {
		t.Fatalf("%d turns, %v", len(made.Turns), err)
	}
	made.Turns[0].Number = number
	return made.Turns[0]
}

// TestCampaignPrefix plays the recorded sessions, each alone and all of them in one, followed by one turn of 60 tool
// steps. Each window begins with most of the previous one, and the budget is used.
func TestCampaignPrefix(t *testing.T) {
	t.Parallel()
	all := transcripts(t)
	ids := slices.Sorted(maps.Keys(all))
	ids = ids[:size.Size(6, len(ids))]
	server := shared(t)
	tally := &refusals{count: map[string]int{}, example: map[string]string{}}
	sums := &prefixes{sums: map[string]*kept{}}
	both := func(follow func(modelCall, reply)) func(modelCall, reply) {
		return func(call modelCall, answer reply) {
			tally.judge(call, answer)
			follow(call, answer)
		}
	}
	t.Run("sessions", func(t *testing.T) {
		for _, id := range ids {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				play(server.in(t), mneme.unique("prefix"), all[id], true, both(sums.follower(t, "alone", 0)))
			})
		}
		t.Run("all in one", func(t *testing.T) {
			t.Parallel()
			name := mneme.unique("prefix")
			turns, follow := 0, both(sums.follower(t, "all in one", 60))
			for _, id := range ids {
				play(server.in(t), name, all[id], true, func(call modelCall, answer reply) {
					call.turn += turns
					follow(call, answer)
				})
				turns += len(all[id].Turns)
			}
			turn := long(t, turns+1)
			play(server.in(t), name, &hard.Transcript{Turns: []hard.Turn{turn}, Messages: turn.Messages}, true,
				both(sums.follower(t, "60 tool steps", 0)))
		})
	})
	for _, key := range slices.Sorted(maps.Keys(sums.sums)) {
		k := sums.sums[key]
		t.Logf("%s: %s", key, k)
		for budget, want := range map[string][2]float64{"50 messages, 8000 tokens": {.85, .55},
			"1000 messages, 32000 tokens": {.95, 0}} {
			share, fill := k.share/float64(k.windows), k.fill/float64(max(k.cutting, 1))
			if strings.Contains(key, budget) && (share < want[0] || k.cutting > 0 && fill < want[1]) {
				t.Errorf("%s: share %.3f, fill %.2f, want at least %v", key, share, fill, want)
			}
		}
	}
	for rule, n := range tally.count {
		t.Errorf("%s: %d windows refused\n%s", rule, n, tally.example[rule])
	}
}
