package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/insight/promptcache"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// row is one way of requesting windows, with the caches that they pass through.
type row struct {
	budget   budget
	pipeline pipeline
	format   providers.API
	count    func(text string) int
	caches   []*promptcache.Cache
	usage    []promptcache.Usage
	windows  int
	refused  int     // requests without a window
	share    float64 // sum, over all windows, of the share with which the next window begins
	last     []promptcache.Block
}

func newRow(b budget, p pipeline, format providers.API, count func(string) int) *row {
	r := &row{budget: b, pipeline: p, format: format, count: count}
	for _, provider := range caches(format) {
		r.caches = append(r.caches, promptcache.New(provider))
	}
	r.usage = make([]promptcache.Usage, len(r.caches))
	return r
}

// system is the system prompt of every window. It is long enough to be cached by itself, as real ones are.
var system = strings.Repeat("You are an agent of an airline. Follow its policy to the letter and ask before you act. "+
	"", 60)

// ask requests a window and sends it to the caches.
func (r *row) ask(s *server, c call, at time.Duration) error {
	var w struct {
		Messages []json.RawMessage
		System   json.RawMessage
	}
	status, err := s.post("/context", map[string]any{"session_id": sessionOf(r.format), "format": r.format,
		"pending": c.pending[r.format],
		"system":  system, "pipeline": r.pipeline.steps,
		"budget": map[string]any{"max_messages": r.budget.messages, "max_tokens": r.budget.tokens}}, &w)
	if status == http.StatusUnprocessableEntity {
		r.refused++
		return nil
	}
	if err != nil {
		return err
	}
	blocks, err := r.blocks(w.System, w.Messages)
	if err != nil {
		return err
	}
	r.share += shared(r.last, blocks)
	r.last = blocks
	r.windows++
	answer := promptcache.Block{Text: string(c.answer), Tokens: r.count(string(c.answer))}
	for i, kept := range r.caches {
		r.usage[i].Add(kept.Send(promptcache.Request{At: at, Blocks: blocks, Answer: answer}))
	}
	return nil
}

// blocks returns a window as a cache sees it: the system prompt, then each message, or each of its blocks. In
// Anthropic's format the client sets two breakpoints, after the system prompt and at the end; in other formats it
// sets none.
func (r *row) blocks(system json.RawMessage, messages []json.RawMessage) ([]promptcache.Block, error) {
	var out []promptcache.Block
	add := func(text, role string, overhead int) {
		out = append(out, promptcache.Block{Text: text, Tokens: r.count(text) + overhead, Input: role == "user" ||
			role == "tool"})
	}
	if len(system) > 0 && string(system) != "null" {
		add(string(system), "system", 0)
		out[0].Breakpoint = promptcache.Short
	}
	for _, raw := range messages {
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		role, _ := m["role"].(string)
		if r.format != providers.Messages {
			add(canonical(m), role, 3)
			continue
		}
		content, ok := m["content"].([]any)
		if !ok { // a string is one block of text
			content = []any{map[string]any{"type": "text", "text": m["content"]}}
		}
		for _, b := range content {
			add(role+" "+canonical(b), role, 1)
		}
	}
	if r.format == providers.Messages && len(out) > 0 {
		out[len(out)-1].Breakpoint = promptcache.Short
	}
	return out, nil
}

// canonical returns JSON with its members in order, as providers read it.
func canonical(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail: it was JSON
	}
	return string(text)
}

// shared returns the share of a window's tokens with which the next one begins.
func shared(last, next []promptcache.Block) float64 {
	all, same, equal := 0, 0, true
	for i, b := range last {
		equal = equal && i < len(next) && next[i].Text == b.Text
		all += b.Tokens
		if equal {
			same += b.Tokens
		}
	}
	if all == 0 {
		return 1
	}
	return float64(same) / float64(all)
}

// print writes the table: one line for each budget and pipeline, and one line for pipelines with the same figures.
// Tokens are means per window; the price is in tokens at the price of uncached input.
func print(rows []*row) {
	fmt.Print("| window: tokens, messages | pipeline | windows | prefix kept | tokens |")
	for _, p := range append(caches(providers.Chat), caches(providers.Messages)...) {
		fmt.Printf(" %s: written, read, paid |", p.Name)
	}
	fmt.Println("\n|---|---|---|---|---|---|---|---|---|")
	var lines []string
	names := map[string][]string{}
	for i := 0; i < len(rows); i += 2 { // a pipeline's windows of Chat Completions and of Messages
		chat, messages := rows[i], rows[i+1]
		windows := fmt.Sprint(chat.windows)
		if n := chat.refused; n > 0 {
			windows += fmt.Sprintf(", %d refused", n)
		}
		line := fmt.Sprintf("| %s | %%s | %s | %.2f, %.2f | %d |", chat.budget.name, windows, chat.kept(),
			messages.kept(),
			chat.usage[0].Tokens/max(chat.windows, 1))
		for _, r := range []*row{chat, messages} {
			for _, u := range r.usage {
				n := max(r.windows, 1)
				line += fmt.Sprintf(" %d, %d, %.0f (%.0f %%%%) |", u.Written/n, u.Read/n, u.Paid/float64(n),
					100*u.Paid/float64(max(u.Tokens, 1)))
			}
		}
		if names[line] == nil {
			lines = append(lines, line)
		}
		names[line] = append(names[line], chat.pipeline.name)
	}
	for _, line := range lines {
		fmt.Printf(line+"\n", strings.Join(names[line], "; "))
	}
}

// kept returns the mean share of a window with which the next one begins.
func (r *row) kept() float64 { return r.share / float64(max(r.windows, 1)) }

// post sends JSON to a route of the project and decodes the response.
func (s *server) post(path string, body, into any) (int, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequest("POST", s.url+"/api/v1/projects/default"+path, bytes.NewReader(payload))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(res.Body); err != nil {
		return res.StatusCode, err
	}
	if res.StatusCode/100 != 2 {
		return res.StatusCode, fmt.Errorf("%s: %s: %s", path, res.Status, text.Bytes())
	}
	if into == nil {
		return res.StatusCode, nil
	}
	return res.StatusCode, json.Unmarshal(text.Bytes(), into)
}
