package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/engine/plan"
	size "github.com/seed-0906e6bc/mneme/testdata/campaign"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// recordedTalks returns conversations of the transcripts that MNEME_TESTDATA names, without system messages.
func recordedTalks(t *testing.T, n int) (out [][]chat.Parsed) {
	file, err := os.Open(filepath.Join(os.Getenv("MNEME_TESTDATA"), "tau-airline-50.jsonl"))
	if err != nil {
		t.Skip("MNEME_TESTDATA names no folder of transcripts")
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() && len(out) < n {
		var in struct{ Messages []json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &in); err != nil {
			t.Fatal(err)
		}
		parsed, _, bad := chat.Parse(chat.OpenAIChat, in.Messages)
		if len(bad) > 0 {
			t.Fatal(bad)
		}
		out = append(out, parsed)
	}
	return out
}

// clientHabits are the changes that clients make to their history before they send it.
var clientHabits = map[string]func(c *apiClient, h []json.RawMessage) []json.RawMessage{
	"full": func(_ *apiClient, h []json.RawMessage) []json.RawMessage { return h },
	"marks": func(c *apiClient, h []json.RawMessage) []json.RawMessage { // texts in blocks, the last with a breakpoint
		out := slices.Clone(h)
		for i := range out {
			var m map[string]any
			if err := json.Unmarshal(out[i], &m); err != nil {
				c.t.Fatal(err)
			}
			if text, ok := m["content"].(string); ok && m["role"] == "user" && c.format != chat.OpenAIResponses {
				block := map[string]any{"type": "text", "text": text}
				if i == len(out)-1 && c.format == chat.AnthropicMessages {
					block["cache_control"] = map[string]any{"type": "ephemeral"}
				}
				m["content"] = []any{block}
				out[i] = object(c.t, m)
			}
		}
		return out
	},
	"trims": func(c *apiClient, h []json.RawMessage) []json.RawMessage { return trimmedTo(c, h, 10) },
	"summarises": func(c *apiClient, h []json.RawMessage) []json.RawMessage {
		if len(h) < 14 {
			return h
		}
		return append([]json.RawMessage{object(c.t, map[string]any{"role": "user", "content": "What was said before."})},
			trimmedTo(c, h, 9)...)
	},
	"asks twice": func(_ *apiClient, h []json.RawMessage) []json.RawMessage { return h },
}

// trimmedTo returns about the last n messages, starting with a question.
func trimmedTo(c *apiClient, h []json.RawMessage, n int) []json.RawMessage {
	for from := max(0, len(h)-n); from > 0; from-- {
		if parsed, _, bad := chat.Parse(c.format, h[from:from+1]); len(bad) == 0 && len(parsed) == 1 && parsed[0].Role == plan.RoleUser {
			return h[from:]
		}
	}
	return h
}

// TestCampaignHabitsAssembled plays recorded conversations by clients of each habit. The provider gets what the client
// sends, and before it at most the history that a trimming client left out. The session holds each message once, and the
// provider refuses nothing.
func TestCampaignHabitsAssembled(t *testing.T) {
	t.Parallel()
	talks := recordedTalks(t, size.Size(2, 50))
	for f, model := range map[chat.Format]string{chat.OpenAIChat: "gpt-4o", chat.AnthropicMessages: "claude-sonnet-5",
		chat.OpenAIResponses: "gpt-5.6"} {
		for habit, send := range clientHabits {
			t.Run(fmt.Sprintf("%v/%s", f, habit), func(t *testing.T) {
				t.Parallel()
				c := newClient(t, f, model)
				c.send = func(h []json.RawMessage) []json.RawMessage { return send(c, h) }
				for i, talk := range talks {
					c.session, c.history = fmt.Sprint("talk-", i), nil
					c.play(talk, habit == "asks twice")
				}
				if refused := c.provider.Refusals(); len(refused) > 0 {
					t.Errorf("%d of %d calls were refused: %v", len(refused), c.calls, refused[0])
				}
			})
		}
	}
}

// play sends the questions and results of a conversation, and lets the provider answer as recorded.
func (c *apiClient) play(talk []chat.Parsed, twice bool) {
	c.t.Helper()
	answers := 0
	for i := range talk {
		m := &talk[i]
		switch m.Role {
		case plan.RoleUser:
			c.ask(m.Text)
		case plan.RoleTool:
			c.result(m.CallID, m.Text)
		case plan.RoleAssistant:
			var says providers.Reply
			if m.Text != "" {
				says.Parts = append(says.Parts, providers.Part{Text: m.Text})
			}
			for _, call := range m.Calls {
				says.Parts = append(says.Parts, providers.Part{Call: &providers.Call{ID: call.ID, Name: call.Name,
					Arguments: call.Arguments}})
			}
			if answers++; twice && answers%3 == 0 { // the first response is lost
				c.provider.Script(says)
				c.post()
			}
			c.call(says)
			sent := c.sent()
			before := c.history[:len(c.history)-replyLength(c)]
			got, request, whole := said(c, sent[len(sent)-1]), saidIn(c, c.send(before)), saidIn(c, before)
			if got != request && (!strings.HasSuffix(got, request) || !strings.HasSuffix(whole, got)) {
				c.t.Fatalf("%s, message %d: %s\nwent on, the client sent\n%s", c.session, i, got, request)
			}
		}
	}
	for len(c.history) > 0 && talk[len(talk)-1].Role != plan.RoleAssistant {
		return // it ends with a question that nobody answered
	}
	parsed, _, bad := chat.Parse(c.format, c.history)
	if len(bad) > 0 {
		c.t.Fatal(bad)
	}
	var head struct{ Messages int }
	got := c.do("GET", "/api/v1/projects/default/sessions/"+c.session, "")
	if err := json.Unmarshal(got.body, &head); err != nil {
		c.t.Fatalf("%s", got.body)
	}
	open := 0 // the part of an unfinished loop that is not stored
	for i := len(parsed) - 1; i >= 0 && len(parsed[i].Calls) > 0; i-- {
		open++
	}
	if open == 0 && head.Messages != len(parsed) {
		c.t.Errorf("%s: %d messages are stored, %d were said", c.session, head.Messages, len(parsed))
	}
}

// replyLength returns the number of elements of the newest reply in the history.
func replyLength(c *apiClient) int {
	r, err := c.read(c.last.body)
	if err != nil {
		c.t.Fatal(err)
	}
	return len(r.Messages)
}

func (c *apiClient) result(id, text string) {
	var m any
	switch c.format {
	case chat.OpenAIResponses:
		m = map[string]any{"type": "function_call_output", "call_id": id, "output": text}
	case chat.AnthropicMessages:
		m = map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": text}}}
	default:
		m = map[string]any{"role": "tool", "tool_call_id": id, "content": text}
	}
	c.history = append(c.history, object(c.t, m))
}

// said returns the content of a body's messages, in order.
func said(c *apiClient, raw []byte) string {
	var body struct{ Messages, Input []json.RawMessage }
	if err := json.Unmarshal(raw, &body); err != nil {
		c.t.Fatal(err)
	}
	return saidIn(c, append(body.Messages, body.Input...))
}

func saidIn(c *apiClient, messages []json.RawMessage) string {
	parsed, _, bad := chat.Parse(c.format, messages)
	if len(bad) > 0 {
		c.t.Fatal(bad)
	}
	var b strings.Builder
	for i := range parsed {
		m := &parsed[i]
		if i == 0 || m.Role != parsed[i-1].Role { // Anthropic's format joins messages of one role
			fmt.Fprintf(&b, "%d ", m.Role)
		}
		b.WriteString(m.Text)
		for _, call := range m.Calls { // windows give repeated ids another name where a format asks for it
			fmt.Fprintf(&b, " %s %s", call.Name, call.Arguments)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
