package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// what is a kind of work.
type what string

const (
	appendTurn what = "append"
	window     what = "window"
	keep       what = "keep"
	search     what = "search"
)

// command is one call, in the form that peers read.
type command struct {
	Do       what              `json:"do"`
	Session  string            `json:"session,omitempty"`
	Messages []json.RawMessage `json:"messages,omitempty"` // of openai.chat
	Tokens   int               `json:"tokens,omitempty"`   // maximum of a window
	Limit    int               `json:"limit,omitempty"`    // maximum of a window's messages, or of a search's results
	Text     string            `json:"text,omitempty"`
}

// turn is one user message and all messages that answer it.
type turn []json.RawMessage

// transcripts reads the recorded sessions in the folder that MNEME_TESTDATA names, or generates some. It omits system
// messages, because agents send them with each call.
func transcripts() (all [][]turn, err error) {
	folder := os.Getenv("MNEME_TESTDATA")
	if folder == "" {
		for seed := range uint64(50) {
			turns := chatTurns(hard.Generate(hard.Knobs{Seed: seed, Messages: 30}))
			for _, t := range turns {
				for i := range t {
					if t[i], err = legible(t[i]); err != nil {
						return nil, err
					}
				}
			}
			all = append(all, slices.DeleteFunc(turns, func(t turn) bool { return !t.closed() }))
		}
		return all, nil
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no *.jsonl in %s", folder)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var one struct{ Messages []json.RawMessage }
			if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			t, err := hard.Recorded(one.Messages)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			all = append(all, chatTurns(t))
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return all, nil
}

// chatTurns returns a transcript's turns that begin with a user's message.
func chatTurns(t *hard.Transcript) (turns []turn) {
	for _, from := range t.Turns {
		var one turn
		for _, m := range from.Messages {
			one = append(one, m.Posted)
		}
		if len(one) > 0 && from.Messages[0].Role == "user" {
			turns = append(turns, one)
		}
	}
	return turns
}

// closed reports whether a turn has the results of exactly its own calls, so that it is valid in any session.
func (t turn) closed() bool {
	open := map[string]int{}
	for _, raw := range t {
		var m struct {
			Answers string `json:"tool_call_id"`
			Calls   []struct {
				ID string
			} `json:"tool_calls"`
		}
		if json.Unmarshal(raw, &m) != nil {
			return false
		}
		for _, c := range m.Calls {
			open[c.ID]++
		}
		if m.Answers != "" {
			if open[m.Answers]--; open[m.Answers] < 0 {
				return false
			}
		}
	}
	for _, n := range open {
		if n != 0 {
			return false
		}
	}
	return true
}

// legible changes a generated message so that peers can read it: some refuse messages without content, content in
// parts, and call arguments that are not JSON. Models write all of these, and generated transcripts contain them on
// purpose.
func legible(message json.RawMessage) (json.RawMessage, error) {
	var m map[string]any
	if err := json.Unmarshal(message, &m); err != nil {
		return nil, err
	}
	switch content := m["content"].(type) {
	case nil:
		m["content"] = nil
	case []any:
		var text strings.Builder
		for _, part := range content {
			if part, ok := part.(map[string]any); ok {
				said, _ := part["text"].(string)
				text.WriteString(said)
			}
		}
		m["content"] = text.String()
	}
	calls, _ := m["tool_calls"].([]any)
	for _, c := range calls {
		call, _ := c.(map[string]any)
		function, _ := call["function"].(map[string]any)
		var arguments map[string]any
		if text, _ := function["arguments"].(string); json.Unmarshal([]byte(text), &arguments) != nil || arguments == nil {
			function["arguments"] = "{}"
		}
	}
	return json.Marshal(m)
}

// whole returns the turns of all transcripts.
func whole(all [][]turn) (turns []turn) {
	for _, t := range all {
		turns = append(turns, t...)
	}
	return turns
}

// appends returns n turns for a round, each transcript in a separate session.
func appends(all [][]turn, round, n int) (out []command) {
	for i := 0; len(out) < n; i++ {
		for _, t := range all[i%len(all)] {
			out = append(out, command{Do: appendTurn, Session: fmt.Sprintf("append-%d-%d", round, i), Messages: t})
		}
	}
	return out[:n]
}

// fill creates a session of at least size messages.
func fill(s system, session string, turns []turn, size int) error {
	for i, have := 0, 0; have < size; i++ {
		t := turns[i%len(turns)]
		have += len(t)
		if _, err := s.do(command{Do: appendTurn, Session: session, Messages: t}); err != nil {
			return err
		}
	}
	return nil
}

// memoryTexts returns n texts of at most 300 bytes from the turns, each with a unique number.
func memoryTexts(turns []turn, n int) (texts []string) {
	for i := 0; len(texts) < n; i++ {
		var m struct{ Content *string }
		if t := turns[i%len(turns)]; json.Unmarshal(t[(i/len(turns))%len(t)], &m) != nil || m.Content == nil {
			continue
		}
		said := strings.Join(strings.Fields(*m.Content), " ")
		if said == "" {
			continue
		}
		if len(said) > 280 {
			said = strings.ToValidUTF8(said[:280], "")
		}
		texts = append(texts, fmt.Sprintf("%s (note %d)", said, len(texts)))
	}
	return texts
}

// searches returns n questions for a round: six words from the middle of a text.
func searches(texts []string, round, n int) (out []command) {
	for i := range n {
		words := strings.Fields(texts[(round*n+i)*7919%len(texts)])
		from := max(0, len(words)/2-3)
		out = append(out, command{Do: search, Text: strings.Join(words[from:min(len(words), from+6)], " "), Limit: 10})
	}
	return out
}
