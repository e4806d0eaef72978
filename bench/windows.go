package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/insight/facts"
	"github.com/seed-0906e6bc/mneme/engine/insight/promptcache"
	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// assembler makes windows of a session. It works like the script behind it: turns are appended when they have ended.
type assembler interface {
	append(session string, t turn) error
	window(session string, pending turn) ([]json.RawMessage, error)
}

// measured is a row of the table of windows.
type measured struct {
	name, is string
	assembler

	counts               facts.Count
	windows              int
	refused              int                // windows that OpenAI's API would refuse
	refusal              *providers.Refusal // the first
	share                float64            // sum of the shares of cached prefixes
	shares               int
	anthropic            *promptcache.Cache
	openai               *promptcache.Cache
	billed, billedOpenAI promptcache.Usage
	last                 []promptcache.Block // the session's window before
}

// betweenCalls is the time between two calls of the model.
const betweenCalls = 5 * time.Second

// compareWindows prints the table of windows for the recordings in a folder.
func compareWindows(o options, folder, shape string, out io.Writer) error {
	all, err := readRecordings(folder)
	if err != nil {
		return err
	}
	if all, err = reshape(all, shape); err != nil {
		return err
	}
	counter, err := tiktoken.New()
	if err != nil {
		return err
	}
	rows, stop, err := windowRows(o)
	defer stop()
	if err != nil {
		return err
	}
	count := remembering(func(text string) int { return counter.Count(tiktoken.O200K, text) })
	for _, r := range rows {
		if err := r.play(all, count); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	printWindows(out, rows)
	return nil
}

// remembering returns count with a memory: windows have the same messages again and again.
func remembering(count func(string) int) func(string) int {
	known := map[string]int{}
	return func(text string) int {
		n, ok := known[text]
		if !ok {
			n = count(text)
			known[text] = n
		}
		return n
	}
}

// windowRows starts all systems of the table. The whole history is the first; the others are compared with it.
func windowRows(o options) (rows []*measured, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	add := func(name, is string, a assembler) {
		if len(rows) > 0 && !strings.Contains(name, o.only) {
			return // costs are shares of the first row's
		}
		rows = append(rows, &measured{name: name, is: is, assembler: a,
			anthropic: promptcache.New(promptcache.Anthropic("Claude Opus 5", 512, .1)), openai: promptcache.New(promptcache.OpenAI56)})
	}
	add("full history", "everything, however long it is", newest{past: map[string]turn{}})
	for _, n := range []int{20, 50, 100} {
		add(fmt.Sprintf("last %d messages", n), "whatever they are", newest{n, map[string]turn{}})
	}
	python, node := filepath.Join(o.peers, "venv", "bin", "python"), env("NODE", "node")
	for _, p := range []struct {
		name, is string
		argv     []string
	}{
		{"LangChain `trim_messages`", fmt.Sprintf("%d tokens by its approximate counter, from a user's message on", o.tokens),
			[]string{python, "windows.py", "langchain"}},
		{"OpenAI Agents `SQLiteSession`", fmt.Sprintf("its last %d items, and what the turn says", o.messages),
			[]string{python, "windows.py", "agents"}},
		{"OpenAI Agents `ToolOutputTrimmer`", "no limit; results before the last two turns cut to 200 characters; " +
			"its compaction needs OpenAI's service and was not run", []string{python, "windows.py", "agents-trimmer"}},
		{"Mastra `Memory`", "its default: the last 10 messages, each all that an agent says in a turn; " +
			"its working memory and its recall need a model and were not run", []string{node, "windows.mjs", "mastra"}},
		{"Mastra `Memory`, `TokenLimiter`", fmt.Sprintf("the last %d messages within %d tokens", o.messages, o.tokens),
			[]string{node, "windows.mjs", "mastra-limited"}},
	} {
		if !strings.Contains(p.name, o.only) {
			continue
		}
		s, err := startPeer(o, p.argv)
		if err != nil {
			return rows, stop, fmt.Errorf("%s: %w", p.name, err)
		}
		stops = append(stops, s.stop)
		add(p.name, p.is, windowScript{s, o})
	}
	m, err := startMneme(o)
	if err != nil {
		return rows, stop, err
	}
	stops = append(stops, m.stop)
	add("**Mneme**", fmt.Sprintf("default settings; %d tokens, %d messages", o.tokens, o.messages),
		windowServer{m, "standard-", o.tokens, o.messages})
	add("**Mneme**, large", "default settings; 32000 tokens, 1000 messages", windowServer{m, "large-", 32000, 1000})
	return rows, stop, nil
}

// newest gives the last n messages, or all if n is 0.
type newest struct {
	n    int
	past map[string]turn
}

func (l newest) append(session string, t turn) error {
	l.past[session] = append(l.past[session], t...)
	return nil
}

func (l newest) window(session string, pending turn) ([]json.RawMessage, error) {
	all := append(l.past[session][:len(l.past[session]):len(l.past[session])], pending...)
	if l.n > 0 {
		all = all[max(0, len(all)-l.n):]
	}
	return all, nil
}

// windowScript is a peer in a process of its own.
type windowScript struct {
	*script
	o options
}

func (s windowScript) append(session string, t turn) error {
	_, err := s.exchange(command{Do: appendTurn, Session: session, Messages: t, Tokens: s.o.tokens, Limit: s.o.messages})
	return err
}

func (s windowScript) window(session string, pending turn) ([]json.RawMessage, error) {
	a, err := s.exchange(command{Do: window, Session: session, Messages: pending, Tokens: s.o.tokens, Limit: s.o.messages})
	return a.Messages, err
}

// windowServer is Mneme, asked over HTTP.
type windowServer struct {
	*mneme
	prefix           string // of session ids
	tokens, messages int
}

func (s windowServer) append(session string, t turn) error {
	body, err := json.Marshal(map[string]any{"session_id": s.prefix + session, "messages": t})
	if err != nil {
		return err
	}
	_, _, err = s.post(s.key, "/projects/default/turns", "application/json", body, http.StatusCreated)
	return err
}

func (s windowServer) window(session string, pending turn) ([]json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{"session_id": s.prefix + session, "pending": pending,
		"budget": map[string]int{"max_tokens": s.tokens, "max_messages": s.messages}})
	if err != nil {
		return nil, err
	}
	b, _, err := s.post(s.key, "/projects/default/context", "application/json", body, http.StatusOK)
	if err != nil {
		return nil, err
	}
	var w struct{ Messages []json.RawMessage }
	err = json.Unmarshal(b, &w)
	return w.Messages, err
}

// play asks for a window before each recorded step of an agent, with the turn so far as pending.
func (r *measured) play(all []recording, count func(string) int) error {
	calls := 0
	for n, recorded := range all {
		session := fmt.Sprint("session-", n)
		var history []byte // of all turns that have ended
		r.last = nil
		for _, t := range recorded.turns {
			shown := history[:len(history):len(history)]
			for i, raw := range t {
				var head struct{ Role string }
				if err := json.Unmarshal(raw, &head); err != nil {
					return err
				}
				m, err := facts.Parse(raw)
				if err != nil {
					return err
				}
				if head.Role == "assistant" && i > 0 {
					w, err := r.window(session, t[:i:i])
					if err != nil {
						return err
					}
					source := facts.Source{History: string(shown), System: recorded.system}
					if err := r.measure(w, &m, &source, time.Duration(calls)*betweenCalls, count); err != nil {
						return err
					}
					calls++
				}
				shown = m.Append(shown)
			}
			if err := r.append(session, t); err != nil {
				return err
			}
			history = shown
		}
	}
	return nil
}

// measure counts one window, and sends it to the caches.
func (r *measured) measure(w []json.RawMessage, step *facts.Message, source *facts.Source, at time.Duration, count func(string) int,
) error {
	var text []byte
	blocks := []promptcache.Block{{Text: source.System, Tokens: count(source.System), Breakpoint: promptcache.Short}}
	for _, raw := range w {
		m, err := facts.Parse(raw)
		if err != nil {
			return err
		}
		var head struct{ Role string }
		if err := json.Unmarshal(raw, &head); err != nil {
			return err
		}
		before := len(text)
		text = m.Append(text)
		said := string(text[before:])
		blocks = append(blocks, promptcache.Block{Text: head.Role + " " + said, Tokens: count(said) + 4,
			Input: head.Role == "user" || head.Role == "tool"})
	}
	blocks[len(blocks)-1].Breakpoint = promptcache.Short
	r.windows++
	r.counts.Add(source.Of(step), source, string(text))
	if refusal := providers.CheckChat(providers.Body(providers.Chat, "gpt-4o", w, nil, nil)); refusal != nil {
		r.refused++
		r.refusal = cmp.Or(r.refusal, refusal)
	}
	if len(r.last) > 0 {
		r.share += sharedPrefix(r.last[1:], blocks[1:])
		r.shares++
	}
	r.last = blocks
	r.billed.Add(r.anthropic.Send(promptcache.Request{At: at, Blocks: blocks}))
	r.billedOpenAI.Add(r.openai.Send(promptcache.Request{At: at, Blocks: blocks}))
	return nil
}

// sharedPrefix returns the share of a window's tokens with which the next one begins.
func sharedPrefix(last, next []promptcache.Block) float64 {
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

func printWindows(out io.Writer, rows []*measured) {
	fmt.Fprintln(out, "| window | needed facts | beside their words | complete calls | cached prefix | tokens a call "+
		"| cost, Anthropic | cost, OpenAI | refused | what it is |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		c, first := &r.counts, rows[0]
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %d | %s | %s | %d of %d | %s |\n", r.name, decimal(facts.Share(c.Present, c.Needed)),
			decimal(facts.Share(c.Anchored, c.Needed)), decimal(facts.Share(c.Complete, c.Steps)), mean(r.share, r.shares),
			r.billed.Tokens/max(1, r.windows), mean(r.billed.Paid, int(first.billed.Paid)), mean(r.billedOpenAI.Paid, int(first.billedOpenAI.Paid)),
			r.refused, r.windows, r.is)
	}
	for _, r := range rows {
		if r.refusal != nil {
			fmt.Fprintf(out, "\n%s: the first refusal is %q\n", r.name, r.refusal.Error())
		}
	}
	fmt.Fprintf(out, "\n%d windows, %d needed facts, %d calls that need facts. Costs are shares of what the full history costs: "+
		"%.3f million tokens at the price of uncached input at Anthropic, %.3f million at OpenAI.\n", rows[0].windows,
		rows[0].counts.Needed, rows[0].counts.Steps, rows[0].billed.Paid/1e6, rows[0].billedOpenAI.Paid/1e6)
}

// decimal writes a share, or that it is unknown.
func decimal(share *float64) string {
	if share == nil {
		return "unknown"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.3f", *share), ".000")
}

func mean(sum float64, n int) string {
	if n == 0 {
		return "unknown"
	}
	return decimal(new(sum / float64(n)))
}
