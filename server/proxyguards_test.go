package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm/wasmtest"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// guard puts a policy as a guard before the default pipeline.
func (s *site) guard(name string, code []byte) {
	s.t.Helper()
	if a := s.do("POST", "/api/v1/policies?name="+name, string(code), "Content-Type", "application/wasm"); a.status != 201 {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	s.patch(`{"pipeline":[{"policy":"` + name + `","guard":true},{"policy":"delegation-filter"},{"policy":"tool-pair-trim"}]}`)
}

var guardedModels = map[chat.Format]string{chat.OpenAIChat: "gpt-4.1", chat.OpenAIResponses: "gpt-5.6", chat.AnthropicMessages: "claude-opus-5"}

// What a guard hides reaches no provider, in any format, with or without a stream: neither from the client's messages nor
// from what the model and the tools said before. A client that manages its own prompt, and a call for a title, are no
// exceptions.
func TestGuardsHideFromProviders(t *testing.T) {
	t.Parallel()
	for format, model := range guardedModels {
		for _, streams := range []bool{false, true} {
			c := newClient(t, format, model)
			c.streams, c.headers = streams, []string{"X-Codex-Window-Id", "w"}
			c.guard("redact", enginetest.Example(t, "redact"))
			for turn := range 3 {
				c.ask(fmt.Sprintf("My key is sk-12ab, turn %d.", turn))
				reply := c.call(providers.Reply{Parts: []providers.Part{{Text: "I use sk-12ab."},
					{Call: &providers.Call{Name: "lookup", Arguments: `{"key":"sk-12ab"}`}}}})
				c.results(reply, "welcome sk-12ab")
				c.call(providers.Say("Done with sk-12ab."))
			}
			title := c.history
			c.history = nil
			c.ask("Write a title for: my key is sk-12ab, turn 0.")
			c.call(providers.Say("Keys"))
			c.history = title
			requests := c.provider.Requests()
			if len(requests) != 7 {
				t.Fatalf("%v: the provider got %d requests", format, len(requests))
			}
			for i, r := range requests {
				if r.Refusal != nil || strings.Contains(string(r.Body), "sk-12ab") || !strings.Contains(string(r.Body), "[redacted]") {
					t.Errorf("%v, streams %t, request %d: %v %.400s", format, streams, i, r.Refusal, r.Body)
				}
			}
		}
	}
}

// A call that guards cannot see, or in which one fails, is refused in the provider's form before anything is sent, although
// proxy_on_error is open.
func TestGuardsRefuse(t *testing.T) {
	t.Parallel()
	for format, model := range guardedModels {
		c := newClient(t, format, model)
		c.guard("redact", enginetest.Example(t, "redact"))
		refused := func(what, code string) {
			t.Helper()
			said := map[string]string{"guard_needs_window": "pipeline has guards", "policy_failed": " ended with "}[code]
			if format == chat.AnthropicMessages || strings.Contains(what, "/messages/") { // whose errors have no codes
				code = "invalid_request_error"
			}
			if body := string(c.last.body); c.last.status != 422 || !strings.Contains(body, code) || !strings.Contains(body, said) {
				t.Errorf("%v, %s: %d %s", format, what, c.last.status, body)
			}
		}
		c.ask("My key is sk-12ab.")
		for _, mode := range []string{"observe", "recall", "off"} {
			c.headers = []string{"X-Mneme-Mode", mode}
			c.last = c.post()
			refused(mode, "guard_needs_window")
		}
		c.headers = nil
		c.last = c.do("POST", c.path, c.body(), callHeaders()...)
		refused("no session", "guard_needs_window")
		for _, path := range []string{"/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/embeddings"} {
			c.last = c.do("POST", path, c.body(), callHeaders()...)
			refused(path, "guard_needs_window")
		}
		if c.last = c.do("GET", "/v1/models", "", callHeaders()...); c.last.status == 422 {
			t.Errorf("GET /v1/models: %s", c.last.body)
		}
		c.history = nil
		c.ask("sk-" + strings.Repeat("x", 300))
		c.last = c.post()
		refused("a secret that the guard cannot mask", "policy_failed")
		c.history = nil
		c.guard("fails", wasmtest.Policy(`{"abi":"1.1","hooks":["assemble"]}`, wasmtest.Trap()))
		c.ask("hello")
		for _, c.streams = range []bool{false, true} {
			c.last = c.post()
			refused("a guard that fails", "policy_failed")
		}
		for _, r := range c.provider.Requests() {
			if len(r.Body) > 0 {
				t.Errorf("%v: the provider got %s %.200s", format, r.Path, r.Body)
			}
		}
	}
}
