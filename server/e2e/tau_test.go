package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// transcripts reads the recorded agent sessions in the folder that MNEME_TESTDATA names, by id.
func transcripts(t *testing.T) map[string]*hard.Transcript {
	folder := os.Getenv("MNEME_TESTDATA")
	if folder == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("MNEME_TESTDATA must name the folder of tau-airline-50.jsonl")
		}
		t.Skip("MNEME_TESTDATA names no folder of recorded sessions")
	}
	file, err := os.Open(filepath.Join(folder, "tau-airline-50.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := map[string]*hard.Transcript{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var one struct {
			ID       string
			Messages []json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		out[one.ID], err = hard.Recorded(one.Messages)
		if err != nil {
			t.Fatalf("%s: %v", one.ID, err)
		}
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%d transcripts, %v", len(out), err)
	}
	return out
}

// TestRecordedSessions posts every recorded session turn by turn. After each turn it asks for windows in every format
// with three budgets, checks them, and replays them at once, at the end, and after a crash.
func TestRecordedSessions(t *testing.T) {
	t.Parallel()
	all := transcripts(t)
	data := t.TempDir()
	server := start(t, data)
	type decision struct {
		session string
		win     *window
	}
	results := make(chan []decision, len(all))
	t.Run("turns", func(t *testing.T) {
		for id, transcript := range all {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				c := converse(server.client(t), id)
				var mine []decision
				for _, turn := range transcript.Turns {
					c.say(turn)
					for _, a := range budgets() {
						if w := c.window(a); w != nil {
							c.replay(t, w)
							mine = append(mine, decision{id, w})
						}
					}
				}
				for _, d := range mine {
					c.replay(t, d.win)
				}
				results <- mine
			})
		}
	})
	close(results)
	server.kill()
	server = start(t, data)
	t.Run("after a crash", func(t *testing.T) {
		for mine := range results {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for _, d := range mine {
					converse(server.client(t), d.session).replay(t, d.win)
				}
			})
		}
	})
}

// budgets returns the asks made after every turn: each format with the defaults, with few messages, and with few
// tokens.
func budgets() []ask {
	var out []ask
	seven, tokens := 7, 900
	for _, format := range hard.Formats() {
		out = append(out, ask{format: format}, ask{format: format, maxMessages: &seven, system: "You help."},
			ask{format: format, maxTokens: &tokens})
	}
	return out
}
