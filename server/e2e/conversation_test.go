package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// conversation posts a transcript to one session and asks for windows of it, each of which is checked.
type conversation struct {
	client
	project string
	session string
	history history
}

// history is everything posted and acknowledged so far.
type history struct {
	messages []*hard.Message
	ids      []string // ids that the server gave to messages
	tokens   []int
	turns    int
	pipeline []string    // the project's policies, in order
	pieces   hard.Format // the format of pieces of messages
}

// turnAnswer is the answer to a posted turn.
type turnAnswer struct {
	SessionID string `json:"session_id"`
	Turn      int    `json:"turn"`
	Revision  int    `json:"revision"`
	Tokens    int    `json:"tokens"`
	Messages  []struct {
		ID     string `json:"id"`
		Role   string `json:"role"`
		Tokens int    `json:"tokens"`
	} `json:"messages"`
	Skipped []struct {
		Index int    `json:"index"`
		Code  string `json:"code"`
	} `json:"skipped"`
}

// converse begins a conversation in the project default.
func converse(client client, session string) *conversation {
	client.t.Helper()
	c := &conversation{client: client, project: "default", session: session}
	var settings struct{ Pipeline []struct{ Policy string } }
	c.get(c.path("/settings")).want(200).into(&settings)
	for _, step := range settings.Pipeline {
		c.history.pipeline = append(c.history.pipeline, step.Policy)
	}
	return c
}

func (c *conversation) path(rest string) string { return "/api/v1/projects/" + c.project + rest }

// turnBody is the request that posts a turn.
func turnBody(session string, turn hard.Turn) object {
	body := object{"session_id": session, "format": turn.Format, "messages": turn.Input}
	if turn.Agent != "" {
		body["agent"] = turn.Agent
	}
	if turn.Delegation != "" {
		body["delegation_id"] = turn.Delegation
	}
	return body
}

// say posts a turn, which must be accepted, and compares the acknowledgement with the model.
func (c *conversation) say(turn hard.Turn) turnAnswer {
	c.t.Helper()
	var answer turnAnswer
	c.post(c.path("/turns"), turnBody(c.session, turn)).want(201).into(&answer)
	if fault := c.history.take(turn, answer); fault != "" {
		c.t.Fatalf("session %s turn %d: %s\nposted: %s", c.session, turn.Number, fault, c.brief(turn.Input))
	}
	if answer.SessionID != c.session {
		c.t.Errorf("turn of session %q acknowledged as %q", c.session, answer.SessionID)
	}
	return answer
}

// take adds an acknowledged turn and returns what is wrong with the acknowledgement, or "".
func (h *history) take(turn hard.Turn, answer turnAnswer) string {
	if answer.Turn != h.turns+1 || answer.Turn != turn.Number {
		return sprintf("numbered %d after %d turns, posted as %d", answer.Turn, h.turns, turn.Number)
	}
	if len(answer.Messages) != len(turn.Messages) {
		return sprintf("%d messages acknowledged, %d posted", len(answer.Messages), len(turn.Messages))
	}
	if len(answer.Skipped) != len(turn.Skipped) {
		return sprintf("skipped %v, want indexes %v", answer.Skipped, turn.Skipped)
	}
	for i, s := range answer.Skipped {
		if s.Index != turn.Skipped[i] || s.Code != "system_not_stored" {
			return sprintf("skipped %v, want system_not_stored at %v", answer.Skipped, turn.Skipped)
		}
	}
	sum := 0
	for i, m := range answer.Messages {
		if m.Role != turn.Messages[i].Role || m.ID == "" {
			return sprintf("message %d acknowledged as %+v, posted a %s", i, m, turn.Messages[i].Role)
		}
		sum += m.Tokens
		h.ids, h.tokens = append(h.ids, m.ID), append(h.tokens, m.Tokens)
	}
	if sum != answer.Tokens {
		return sprintf("tokens %d are not the sum %d of the messages'", answer.Tokens, sum)
	}
	h.messages = append(h.messages, turn.Messages...)
	h.turns, h.pieces = h.turns+1, turn.Format
	return ""
}

// ask is one request for a window. The zero value asks for the defaults in openai.chat.
type ask struct {
	format      hard.Format
	viewer      string // delegation
	maxMessages *int   // nil means the default of 50
	maxTokens   *int   // nil means the default of 8,000
	window      int    // context_window; 0 for none
	reserve     int
	system      string
	pending     *hard.Turn // the pending turn
	depth       int        // 0 means the default of 20
	memories    *remembering
}

// These are the documented defaults.
const (
	defaultMessages = 50
	defaultTokens   = 8000
	defaultDepth    = 20
	threshold       = 40 // summary_threshold
)

func (a ask) limits() (messages, tokens, depth int) {
	messages, tokens, depth = defaultMessages, defaultTokens, defaultDepth
	if a.maxMessages != nil {
		messages = *a.maxMessages
	}
	if a.maxTokens != nil {
		tokens = *a.maxTokens
	}
	if a.depth != 0 {
		depth = a.depth
	}
	return
}

func (a ask) target() hard.Format {
	if a.format == "" {
		return hard.Chat
	}
	return a.format
}

func (a ask) body(session string) object {
	budget := object{}
	if a.maxMessages != nil {
		budget["max_messages"] = *a.maxMessages
	}
	if a.maxTokens != nil {
		budget["max_tokens"] = *a.maxTokens
	}
	if a.window != 0 {
		budget["context_window"], budget["reserve_tokens"] = a.window, a.reserve
	}
	body := object{"session_id": session, "format": a.target(), "budget": budget, "explain": true}
	body["viewer"] = object{"whole": true} // the law is of all that a viewer may see; TestSubAgents is of what it sees
	if a.viewer != "" {
		body["viewer"] = object{"agent": "researcher", "delegation_id": a.viewer, "whole": true}
	}
	if a.system != "" {
		body["system"] = a.system
	}
	if a.pending != nil {
		body["pending"] = a.pending.Input
	}
	if a.memories != nil {
		body["memories"] = object{"query": a.memories.query, "limit": a.memories.limit, "position": "first",
			"role": "system"} // the only place that the checker knows; TestMemoriesStandBeforeTheQuestion covers the others
	}
	if a.depth != 0 {
		var steps []object
		for _, name := range a.pipeline() {
			steps = append(steps, object{"policy": name})
		}
		steps[1]["config"] = object{"depth": a.depth}
		body["pipeline"] = steps
	}
	return body
}

// pipeline returns the pipeline for an ask with a depth.
func (a ask) pipeline() []string {
	return []string{"delegation-filter", "depth-compress", "tool-pair-trim"}
}

// window asks for a window and checks it. It returns nil if the mandatory messages do not fit and the server rightly
// says so.
func (c *conversation) window(a ask) *window {
	c.t.Helper()
	r := c.post(c.path("/context"), a.body(c.session))
	if r.status == 422 {
		if faults := checkRefusal(&c.history, a, r.wantCode(422, "budget_too_small")); len(faults) > 0 {
			c.t.Errorf("session %s turn %d, %s:\n  %s\nrefusal: %s", c.session, c.history.turns,
				c.brief(a.body(c.session)),
				strings.Join(faults, "\n  "), r.body)
		}
		return nil
	}
	var w window
	r.want(200).into(&w)
	if faults := check(&c.history, a, &w); len(faults) > 0 {
		c.t.Fatalf("session %s turn %d, %s:\n  %s\nwindow: %s\nreport: %s", c.session, c.history.turns,
			c.brief(a.body(c.session)),
			strings.Join(faults, "\n  "), c.brief(w.Messages), c.brief(w.Report))
	}
	return &w
}

// replay computes a decision again and compares the result byte for byte.
func (c *conversation) replay(t testing.TB, w *window) {
	t.Helper()
	var again struct {
		Equal  bool   `json:"equal"`
		Window window `json:"window"`
	}
	c.post(c.path("/decisions/"+w.DecisionID+"/replay"), nil).want(200).into(&again)
	if !again.Equal {
		t.Errorf("replay of %s says it differs", w.DecisionID)
	}
	if !sameBytes(w.Messages, again.Window.Messages) || w.System != again.Window.System {
		then, now := c.brief(w.Messages), c.brief(again.Window.Messages)
		t.Errorf("replay of %s differs:\nthen %s\nnow  %s", w.DecisionID, then, now)
	}
}

// brief returns a value as JSON, shortened for an error message.
func (c client) brief(v any) string { return clip(string(encodeJSON(c.t, v)), 3000) }

func sameBytes(a, b []json.RawMessage) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if string(a[i]) != string(b[i]) {
			return false
		}
	}
	return true
}
