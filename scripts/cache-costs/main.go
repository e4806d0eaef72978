// Command cache-costs plays recorded sessions with the real server and computes what prompt caches of model providers
// would write, read and charge for its windows. It prints a table for docs/BENCHMARKS.md.
//
//	MNEME_TESTDATA=FOLDER go run ./scripts/cache-costs            all 50 sessions in one, at all budgets
//	go run ./scripts/cache-costs -sessions 5 -tokens 8000         fewer, at one budget
//	go run ./scripts/cache-costs -binary /path/to/mneme           another build of the server
//
// Before each model call of the recorded agent, it sends the turn so far as pending, and passes the window to the
// simulator (engine/insight/promptcache). Calls are five seconds apart. It measures no times, so the table does not
// depend on the machine.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/insight/promptcache"
	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// between is the time between two model calls.
const between = 5 * time.Second

// budget is one size of window.
type budget struct {
	name             string
	messages, tokens int
}

// pipeline is one way to make windows.
type pipeline struct {
	name  string
	steps []step
}

type step struct {
	Policy string         `json:"policy"`
	Config map[string]any `json:"config,omitempty"`
}

// pipelines returns the default, the default without each of its policies, and the default with each low_water.
func pipelines() []pipeline {
	built := []string{"delegation-filter", "tool-result-clear", "summarise", "tool-pair-trim"}
	var whole []step
	for _, name := range built {
		whole = append(whole, step{Policy: name})
	}
	out := []pipeline{{"default", whole}}
	for i, name := range built {
		var rest []step
		rest = append(append(rest, whole[:i]...), whole[i+1:]...)
		out = append(out, pipeline{"without " + name, rest})
	}
	for _, share := range []float64{1, .8, .7, .5} {
		steps := append([]step{}, whole...)
		for i := range steps {
			if name := steps[i].Policy; name == "tool-pair-trim" {
				steps[i].Config = map[string]any{"low_water": share}
			}
		}
		out = append(out, pipeline{"low_water " + strconv.FormatFloat(share, 'g', -1, 64), steps})
	}
	steps := append([]step{}, whole...)
	steps[len(steps)-1].Config = map[string]any{"marker": false}
	return append(out, pipeline{"without the marker", steps})
}

// caches returns the providers for windows of a format.
func caches(format providers.API) []promptcache.Provider {
	if format == providers.Messages {
		return []promptcache.Provider{promptcache.Anthropic("Claude Opus 5", 512, .1)}
	}
	return []promptcache.Provider{promptcache.OpenAI56Before, promptcache.OpenAI56, promptcache.DeepSeek}
}

func main() {
	log.SetFlags(0)
	binary := flag.String("binary", "", "the server's program; empty builds this checkout's")
	sessions := flag.Int("sessions", 50, "how many recorded sessions, one after the other in one session")
	tokens := flag.String("tokens", "8000,32000,128000", "budgets in tokens")
	flag.Parse()
	if err := run(*binary, *sessions, *tokens); err != nil {
		log.Fatal(err)
	}
}

func run(binary string, sessions int, tokens string) error {
	budgets, err := parseBudgets(tokens)
	if err != nil {
		return err
	}
	calls, err := recorded(sessions)
	if err != nil {
		return err
	}
	counter, err := tiktoken.New()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "cache-costs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	server, err := buildAndStart(binary, folder)
	if err != nil {
		return err
	}
	defer server.stop()

	counts := map[string]int{} // most windows contain the same blocks
	count := func(text string) int {
		n, ok := counts[text]
		if !ok {
			n = counter.Count(tiktoken.O200K, text)
			counts[text] = n
		}
		return n
	}
	var rows []*row
	for _, b := range budgets {
		for _, p := range pipelines() {
			for _, format := range []providers.API{providers.Chat, providers.Messages} {
				rows = append(rows, newRow(b, p, format, count))
			}
		}
	}
	for n, c := range calls {
		if c.post != nil {
			for _, format := range []providers.API{providers.Chat, providers.Messages} {
				if err := server.turn(format, c.post); err != nil {
					return err
				}
			}
			continue
		}
		for _, r := range rows {
			if err := r.ask(server, c, time.Duration(n)*between); err != nil {
				return err
			}
		}
	}
	print(rows)
	return nil
}

// buildAndStart starts a server on an empty data folder. It builds the server first if binary is empty.
func buildAndStart(binary, folder string) (*server, error) {
	if binary == "" {
		binary = filepath.Join(folder, "mneme")
		build := exec.Command("go", "build", "-o", binary, ".")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return nil, err
		}
	}
	return start(binary, filepath.Join(folder, "data"))
}

func parseBudgets(list string) ([]budget, error) {
	var out []budget
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-tokens: %q is no number of tokens", text)
		}
		messages := 50 // the default, with the default of 8,000 tokens
		if n > 8000 {
			messages = n / 32
		}
		out = append(out, budget{fmt.Sprintf("%dk, %d", n/1000, messages), messages, n})
	}
	return out, nil
}

// call is one model call: its pending messages and the answer. If post is set, it is the end of a turn instead.
type call struct {
	pending map[providers.API][]json.RawMessage
	answer  json.RawMessage
	post    []json.RawMessage
}

// recorded reads the calls of the recorded sessions.
func recorded(sessions int) ([]call, error) {
	folder := os.Getenv("MNEME_TESTDATA")
	if folder == "" {
		return nil, errors.New("MNEME_TESTDATA must name the folder of tau-airline-50.jsonl")
	}
	file, err := os.Open(filepath.Join(folder, "tau-airline-50.jsonl"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	var out []call
	for n := 0; lines.Scan() && n < sessions; n++ {
		var one struct{ Messages []json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, err
		}
		calls, err := split(one.Messages)
		if err != nil {
			return nil, err
		}
		out = append(out, calls...)
	}
	return out, lines.Err()
}

// split splits a session into turns, each beginning with a user's message, and turns into model calls.
func split(messages []json.RawMessage) ([]call, error) {
	var out []call
	var turn []json.RawMessage
	end := func() {
		if len(turn) > 0 {
			out = append(out, call{post: turn})
		}
		turn = nil
	}
	for _, raw := range messages {
		var m struct{ Role string }
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		switch m.Role {
		case "system":
			continue
		case "user":
			end()
		case "assistant":
			c := call{pending: map[providers.API][]json.RawMessage{}, answer: raw}
			for _, format := range []providers.API{providers.Chat, providers.Messages} {
				pending, err := providers.FromChat(format, turn[:len(turn):len(turn)])
				if err != nil {
					return nil, err
				}
				c.pending[format] = pending
			}
			out = append(out, c)
		}
		turn = append(turn, raw)
	}
	end()
	return out, nil
}
