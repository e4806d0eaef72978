package gateway_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/gateway"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	size "github.com/seed-0906e6bc/mneme/testdata/campaign"
)

// TestCampaignAgents runs agents in the three protocols, with and without enough context. Providers refuse no call, and
// if the context is large enough, nearly all of each prompt is the previous one.
func TestCampaignAgents(t *testing.T) {
	turns := size.Size(15, 200)
	for _, tt := range []struct {
		name, model   string
		format        chat.Format
		context, most int
		calls         int
		thinks        bool
		share         float64 // the share of a prompt's bytes that the previous one began with
	}{
		{"chat", "gpt-4o", chat.OpenAIChat, 0, 0, 1, false, .95},
		{"chat with a window", "gpt-4o", chat.OpenAIChat, 128_000, 16_000, 1, false, .95},
		{"chat, small", "gpt-4o", chat.OpenAIChat, 2_500, 500, 2, false, 0},
		{"responses", "gpt-6.2-astra", chat.OpenAIResponses, 0, 0, 1, true, .95},
		{"responses, small", "gpt-6.2-astra", chat.OpenAIResponses, 2_500, 500, 2, true, 0},
		{"messages", "claude-fable-5-2", chat.AnthropicMessages, 0, 0, 1, true, .95},
		{"messages with a window", "claude-fable-5-2", chat.AnthropicMessages, 200_000, 32_000, 1, true, .95},
		{"messages, small", "claude-fable-5-2", chat.AnthropicMessages, 2_500, 500, 2, true, 0},
		{"messages, cuts in loops", "claude-fable-5-2", chat.AnthropicMessages, 2_000, 500, 8, true, 0},
		{"messages, another model", "claude-sonnet-5-5", chat.AnthropicMessages, 2_500, 500, 2, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAgent(t, tt.format, tt.model, gateway.Assemble)
			a.context, a.most = tt.context, tt.most
			for n := 1; n <= turns; n++ {
				a.turn(n, tt.calls, tt.thinks)
				if a.out.Mode != gateway.Assemble {
					t.Fatalf("turn %d went on as %s", n, a.out.Mode)
				}
			}
			if refused := a.provider.Refusals(); len(refused) > 0 || a.retried > 0 {
				t.Errorf("%d calls were refused, %d retried: %v", len(refused), a.retried, refused[0])
			}
			share := shared(t, a)
			thoughts := 0
			for _, body := range a.sent {
				thoughts += bytes.Count(body, []byte(`"type":"thinking"`)) + bytes.Count(body, []byte(`"type":"reasoning"`))
			}
			t.Logf("%d calls, %.3f of the prompts' bytes are the beginning of the one before, %d thoughts", a.calls, share,
				thoughts)
			if share < tt.share {
				t.Errorf("%.3f of the prompts' bytes go on from the one before, at least %.3f are meant", share, tt.share)
			}
			if tt.thinks && thoughts < a.calls {
				t.Errorf("%d thoughts were sent in %d calls", thoughts, a.calls)
			}
		})
	}
}

// shared returns the mean share of a prompt that is the beginning of the next one.
func shared(t testing.TB, a *agent) float64 {
	t.Helper()
	same, all := 0, 0
	var before []json.RawMessage
	for _, raw := range a.sent {
		var body struct{ Messages, Input []json.RawMessage }
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Fatal(err)
		}
		list := append(body.Messages, body.Input...)
		equal := true
		for i, m := range before {
			all += len(m)
			if equal = equal && i < len(list) && bytes.Equal(m, list[i]); equal {
				same += len(m)
			}
		}
		before = list
	}
	return float64(same) / float64(all)
}
