package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/gateway/wire"
	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// toolModels are models of the three protocols. Each is as strict about thinking as its provider.
var toolModels = map[chat.Format]string{chat.OpenAIChat: "gpt-4.1", chat.OpenAIResponses: "gpt-5.5",
	chat.AnthropicMessages: "claude-opus-5-5"}

// newToolClient returns a client whose project has memory tools.
func newToolClient(t testing.TB, f chat.Format, streams bool) *apiClient {
	c := newClient(t, f, toolModels[f])
	c.streams = streams
	c.patch(`{"proxy_tools":["memory_recall","memory_store","memory_forget"]}`)
	return c
}

// rounds sends the history, lets the provider answer in rounds, and appends the reply.
func (c *apiClient) rounds(says ...providers.Reply) *wire.Reply {
	c.t.Helper()
	c.provider.Script(says...)
	c.last = c.post()
	r, err := c.read(c.last.body)
	if c.last.status != 200 || err != nil {
		c.t.Fatalf("%d %v: %s; refused: %v", c.last.status, err, c.last.body, c.provider.Refusals())
	}
	c.history = append(c.history, r.Messages...)
	return r
}

// eachProtocol runs a test in the three protocols, streamed and not.
func eachProtocol(t *testing.T, run func(t *testing.T, c *apiClient)) {
	for f, name := range map[chat.Format]string{chat.OpenAIChat: "chat", chat.OpenAIResponses: "responses",
		chat.AnthropicMessages: "messages"} {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,stream=%v", name, streams), func(t *testing.T) {
				t.Parallel()
				run(t, newToolClient(t, f, streams))
			})
		}
	}
}

func part(text string) providers.Part { return providers.Part{Text: text} }

func callPart(name, arguments string) providers.Part {
	return providers.Part{Call: &providers.Call{Name: name, Arguments: arguments}}
}

const remember = `{"key":"drink","content":"The user likes green tea."}`

// lawful checks that the provider refused nothing and that the client saw no memory tools.
func (c *apiClient) lawful() {
	c.t.Helper()
	for _, r := range c.provider.Refusals() {
		c.t.Errorf("the provider refused: %v", r)
	}
	for _, raw := range c.history {
		if strings.Contains(string(raw), "memory_") {
			c.t.Errorf("the client has %s", raw)
		}
	}
	if strings.Contains(string(c.last.body), "memory_") || strings.Contains(string(c.last.body), `"tool_choice":"none"`) {
		c.t.Errorf("the client got %s", c.last.body)
	}
}

// stored returns the session's stored messages, with hidden ones marked.
func (c *apiClient) stored() string {
	c.t.Helper()
	got := c.do("GET", "/api/v1/projects/default/sessions/"+c.session+"/messages?limit=1000", "")
	if got.status != 200 {
		c.t.Fatalf("%d %s", got.status, got.body)
	}
	return string(got.body)
}

// TestMemoryTools lets models call memory tools in rounds, together with texts, thinking and the client's own calls.
func TestMemoryTools(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, c *apiClient) {
		c.ask("I like green tea.")
		r := c.rounds(providers.Think("worth keeping", providers.Reply{
			Parts: []providers.Part{part("Let me note that."), callPart("memory_store", remember)}}),
			providers.Think("it is kept", providers.Say("Noted.")))
		c.lawful()
		if usage := r.Usage; c.decisions()[0].Call.Usage.Input != int(usage.Input) && !hidesUsage(c) {
			t.Errorf("the client got the usage %+v, the decision has %+v", usage, c.decisions()[0].Call.Usage)
		}
		c.ask("What do I like?")
		c.rounds(providers.Use("memory_recall", `{"query":"likes"}`), providers.Use("memory_recall", `{"query":"tea"}`),
			providers.Say("Green tea."))
		c.lawful()
		if c.last.header.Get("X-Mneme-Matched") != "extend" {
			t.Errorf("the second turn is %v", c.last.header)
		}
		// One response calls tools of both: Mneme's results wait for the client's.
		c.ask("And where is my order?")
		r = c.rounds(providers.Think("two things", providers.Reply{Parts: []providers.Part{part("Looking."),
			callPart("memory_recall", `{"query":"order"}`), callPart("lookup", `{"order":7}`)}}))
		c.lawful()
		c.results(r, "shipped")
		r = c.rounds(providers.Use("memory_recall", `{"query":"shipped"}`), providers.Use("lookup", `{"order":8}`))
		c.results(r, "lost")
		c.rounds(providers.Say("One was shipped, one is lost."))
		c.lawful()
		sent := c.sent()
		last := string(sent[len(sent)-1])
		for _, want := range []string{"likes green tea", `\"query\":\"order\"`, `\"query\":\"shipped\"`, "lost"} {
			if c.format == chat.AnthropicMessages {
				want = strings.ReplaceAll(want, `\`, "")
			}
			if !strings.Contains(last, want) {
				t.Errorf("the provider did not get %s: %s", want, last)
			}
		}
		c.ask("Thanks.")
		c.rounds(providers.Say("You are welcome."))
		c.lawful()
		if c.last.header.Get("X-Mneme-Matched") != "extend" || len(c.decisions()) != 6 {
			t.Errorf("%v, %d decisions", c.last.header, len(c.decisions()))
		}
		found := c.do("POST", "/api/v1/projects/default/memories/recall", `{"query":"drink","scope":"transcript"}`)
		if found.status != 200 || strings.Contains(string(found.body), "memory_store") {
			t.Errorf("a hidden message is found: %d %s", found.status, found.body)
		}
		if stored := c.stored(); strings.Count(stored, `"hidden":true`) < 10 || strings.Count(stored, `"content":"Looking.`) < 1 {
			t.Errorf("stored is %s", stored)
		}
	})
}

// hidesUsage reports whether the client does not get the usage because it did not request it.
func hidesUsage(c *apiClient) bool { return c.streams && c.format == chat.OpenAIChat }

// An empty response reaches the client unchanged, although it cannot be searched for tool calls.
func TestAnswersThatSayNothing(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, c *apiClient) {
		c.ask("Say nothing.")
		c.provider.Script(providers.Reply{})
		c.last = c.post()
		if c.last.status != 200 || strings.Contains(string(c.last.body), "error\":{") {
			t.Fatalf("%d %s", c.last.status, c.last.body)
		}
		ends := map[chat.Format]string{chat.OpenAIChat: "[DONE]", chat.OpenAIResponses: "response.completed",
			chat.AnthropicMessages: "message_stop"}
		if c.streams && !strings.Contains(string(c.last.body), ends[c.format]) {
			t.Errorf("the stream has no end: %s", c.last.body)
		}
		c.lawful()
	})
}

// A request with as many tools as the provider allows gets none of Mneme's. Anthropic has no such limit.
func TestManyTools(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, c *apiClient) {
		var many []any
		for i := range mostTools - 2 {
			tool := map[string]any{"name": fmt.Sprint("f", i), "parameters": map[string]any{"type": "object"}}
			switch c.format {
			case chat.OpenAIChat:
				tool = map[string]any{"type": "function", "function": tool}
			case chat.OpenAIResponses:
				tool["type"] = "function"
			default:
				tool = map[string]any{"name": tool["name"], "input_schema": tool["parameters"]}
			}
			many = append(many, tool)
		}
		c.extra = map[string]any{"tools": many}
		c.ask("Which tools are there?")
		c.rounds(providers.Say("Many."))
		sent := c.sent()
		added := strings.Contains(string(sent[len(sent)-1]), "memory_recall")
		if added != (c.format == chat.AnthropicMessages) {
			t.Errorf("memory tools were added: %v", added)
		}
	})
}

// Of a response with very many calls, some run, and the model is told about the rest. The prompt's share of the
// memory budget is returned.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, c *apiClient) {
		c.ask("Look everywhere.")
		var parts []providers.Part
		for range maxCalls + 8 {
			parts = append(parts, callPart("memory_recall", `{"query":"tea"}`))
		}
		c.rounds(providers.Reply{Parts: parts}, providers.Say("Nothing is there."))
		sent := c.sent()
		if n := strings.Count(string(sent[len(sent)-1]), "may call memory tools"); n != 8 {
			t.Errorf("%d calls were put off, want 8", n)
		}
		c.lawful()
		c.drained()
		if used := c.s.bytes.held(); used != 0 {
			t.Errorf("%d bytes are still counted", used)
		}
	})
}
