package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"testing"

	size "github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/hard"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// asked are the models that windows are sent to: each checks all that its API checks.
var asked = map[hard.Format]string{hard.Chat: "gpt-4o", hard.Responses: "gpt-5.6", hard.Anthropic: "claude-opus-5-5"}

// bounds are the budgets of the windows: messages and tokens.
var bounds = [][2]int{{50, 8000}, {1000, 32000}, {50, 900}, {7, 8000}}

// tolerated is the one rule that windows break: in openai.responses a call_id comes as often as the agent used it.
const tolerated = "responses/unique"

// TestCampaignAccepted plays the recorded sessions, each alone and all of them in one, as their agents played them:
// before each call of the model the turn so far is pending, and the window goes to the provider. The provider refuses
// none, but for what is tolerated.
func TestCampaignAccepted(t *testing.T) {
	all := transcripts(t)
	ids := slices.Sorted(maps.Keys(all))
	ids = ids[:size.Size(3, len(ids))]
	server := shared(t)
	tally := &refusals{count: map[string]int{}, example: map[string]string{}}
	t.Run("sessions", func(t *testing.T) {
		for _, id := range ids {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				play(server.in(t), mneme.unique("accepted"), all[id], tally)
			})
		}
		t.Run("all in one", func(t *testing.T) {
			t.Parallel()
			name := mneme.unique("accepted")
			for _, id := range ids {
				play(server.in(t), name, all[id], tally)
			}
		})
	})
	t.Logf("%d windows, and %d times none because the budget was too small", tally.windows, tally.none)
	for _, rule := range slices.Sorted(maps.Keys(tally.count)) {
		if rule == tolerated {
			t.Logf("%s: %d windows", rule, tally.count[rule])
			continue
		}
		t.Errorf("%s: %d windows refused\n%s", rule, tally.count[rule], tally.example[rule])
	}
}

// refusals counts what was refused, with one example for each rule.
type refusals struct {
	mu      sync.Mutex
	windows int
	none    int
	count   map[string]int
	example map[string]string
}

func (r *refusals) add(where string, refusal *providers.Refusal, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows++
	if refusal == nil {
		return
	}
	r.count[refusal.Rule]++
	if r.example[refusal.Rule] == "" {
		r.example[refusal.Rule] = where + ": " + refusal.Error() + "\n" + clip(string(body), 2000)
	}
}

func (r *refusals) addNone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.none++
}

// play posts a transcript turn by turn, and asks for a window at each call of the model.
func play(c client, session string, transcript *hard.Transcript, tally *refusals) {
	c.t.Helper()
	var tools []string
	for _, m := range transcript.Messages {
		for _, call := range m.Calls {
			if !slices.Contains(tools, call.Name) {
				tools = append(tools, call.Name)
			}
		}
	}
	tools = append(tools, "lookup") // other sessions' calls need tools as well
	for _, turn := range transcript.Turns {
		for i, raw := range turn.Input {
			var m struct{ Role string }
			if err := json.Unmarshal(raw, &m); err != nil {
				c.t.Fatal(err)
			}
			if m.Role != "assistant" {
				continue
			}
			for format, model := range asked {
				pending, err := providers.FromChat(providers.API(format), turn.Input[:i])
				if err != nil {
					c.t.Fatal(err)
				}
				for _, b := range bounds {
					r := c.post("/api/v1/projects/default/context", object{"session_id": session, "format": format,
						"pending": pending,
						"system":  "You help.", "budget": object{"max_messages": b[0], "max_tokens": b[1]}})
					if r.status == 422 {
						r.wantCode(422, "budget_too_small")
						tally.addNone()
						continue
					}
					var w struct {
						Messages []json.RawMessage
						System   json.RawMessage
					}
					r.want(200).into(&w)
					body := providers.Body(providers.API(format), model, w.Messages, w.System, tools)
					where := sprintf("%s turn %d message %d, %s, %v", session, turn.Number, i, format, b)
					tally.add(where, refusedBy(format, body), body)
				}
			}
		}
		c.post("/api/v1/projects/default/turns", turnBody(session, turn)).want(201)
	}
}

// refusedBy is what the format's provider refuses.
func refusedBy(format hard.Format, body []byte) *providers.Refusal {
	switch format {
	case hard.Chat:
		return providers.CheckChat(body)
	case hard.Responses:
		return providers.CheckResponses(body)
	}
	return providers.CheckMessages(body)
}
