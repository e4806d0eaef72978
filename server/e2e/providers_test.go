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

// asked are the models that windows are sent to. Each has all the checks of its API.
var asked = map[hard.Format]string{hard.Chat: "gpt-4o", hard.Responses: "gpt-5.6", hard.Anthropic: "claude-opus-5-5"}

// bounds are the budgets of the windows: messages and tokens.
var bounds = [][2]int{{50, 8000}, {1000, 32000}, {50, 900}, {7, 8000}}

// TestCampaignAccepted plays the recorded sessions as their agents played them, each alone and all of them in one:
// before each call of the model, the turn so far is pending, and the window is sent to the provider. The provider
// refuses none.
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
				play(server.in(t), mneme.unique("accepted"), all[id], false, tally.judge)
			})
		}
		t.Run("all in one", func(t *testing.T) {
			t.Parallel()
			name := mneme.unique("accepted")
			for _, id := range ids {
				play(server.in(t), name, all[id], false, tally.judge)
			}
		})
	})
	t.Logf("%d windows, and %d times none because the budget was too small", tally.windows, tally.none)
	for _, rule := range slices.Sorted(maps.Keys(tally.count)) {
		t.Errorf("%s: %d windows refused\n%s", rule, tally.count[rule], tally.example[rule])
	}
}

// refusals counts the refusals, with one example for each rule.
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

// modelCall is an agent's call of the model, for which it asks for a window.
type modelCall struct {
	where  string
	turn   int
	format hard.Format
	bounds [2]int // messages and tokens
	tools  []string
}

// play posts a transcript turn by turn, in each format to a separate session, and asks for a window for each call of
// the model.
func play(c client, session string, transcript *hard.Transcript, explain bool, answered func(modelCall, reply)) {
	c.t.Helper()
	var tools []string
	for _, m := range transcript.Messages {
		for _, call := range m.Calls {
			if !slices.Contains(tools, call.Name) {
				tools = append(tools, call.Name)
			}
		}
	}
	tools = append(tools, "lookup") // for the calls of other sessions
	for _, turn := range transcript.Turns {
		for i, raw := range turn.Input {
			var m struct{ Role string }
			if err := json.Unmarshal(raw, &m); err != nil {
				c.t.Fatal(err)
			}
			if m.Role != "assistant" {
				continue
			}
			for format := range asked {
				pending, err := providers.FromChat(providers.API(format), turn.Input[:i])
				if err != nil {
					c.t.Fatal(err)
				}
				for _, b := range bounds {
					where := sprintf("%s turn %d message %d, %s, %v", session, turn.Number, i, format, b)
					answered(modelCall{where, turn.Number, format, b, tools},
						c.post("/api/v1/projects/default/context", object{"session_id": session + string(format),
							"format": format, "pending": pending, "system": "You help.", "explain": explain,
							"budget": object{"max_messages": b[0], "max_tokens": b[1]}}))
				}
			}
		}
		for format := range asked {
			messages, err := providers.FromChat(providers.API(format), turn.Input)
			if err != nil {
				c.t.Fatal(err)
			}
			c.post("/api/v1/projects/default/turns", object{"session_id": session + string(format), "format": format,
				"messages": messages}).want(201)
		}
	}
}

// judge sends a window to its provider.
func (r *refusals) judge(call modelCall, answer reply) {
	if answer.status == 422 {
		answer.wantCode(422, "budget_too_small")
		r.addNone()
		return
	}
	var w struct {
		Messages []json.RawMessage
		System   json.RawMessage
	}
	answer.want(200).into(&w)
	body := providers.Body(providers.API(call.format), asked[call.format], w.Messages, w.System, call.tools)
	r.add(call.where, refusedBy(call.format, body), body)
}

// refusedBy returns the refusal by the format's provider, or nil.
func refusedBy(format hard.Format, body []byte) *providers.Refusal {
	switch format {
	case hard.Chat:
		return providers.CheckChat(body)
	case hard.Responses:
		return providers.CheckResponses(body)
	}
	return providers.CheckMessages(body)
}
