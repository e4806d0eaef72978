package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/insight/facts"
	"github.com/seed-0906e6bc/mneme/engine/insight/promptcache"
)

func words(text string) int { return len(strings.Fields(text)) }

// TestWindows plays testdata/windows, whose figures were computed by hand. Tokens are words there, and four for each message.
//
// The agent's steps need #W1234567 (in a call), 250.75, #W1234567 and mia_li_3668 (in a call), 250.75, and 12345. 2024 is in
// the system prompt.
func TestWindows(t *testing.T) {
	all, err := readRecordings("testdata/windows")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		newest  int
		counts  facts.Count
		tokens  int
		shares  float64 // sum of the three windows that have one before
		refused int
	}{
		// 12+23+38+49, and 6
		{0, facts.Count{Needed: 6, Present: 6, Anchored: 6, Steps: 2, Complete: 2}, 128, 3, 0},
		// The third window has no #W1234567, the fourth no 250.75: 12+15+19+15, and 6
		{2, facts.Count{Needed: 6, Present: 4, Anchored: 4, Steps: 2, Complete: 1}, 67, 0, 0},
		// The second and fourth window begin with a result: 12+9+10+9, and 6
		{1, facts.Count{Needed: 6, Present: 4, Anchored: 4, Steps: 2, Complete: 1}, 46, 0, 2},
	} {
		r := &measured{assembler: newest{c.newest, map[string]turn{}}, openai: promptcache.New(promptcache.OpenAI56),
			anthropic: promptcache.New(promptcache.Anthropic("", 512, .1))}
		if err := r.play(all, words); err != nil {
			t.Fatal(err)
		}
		if r.counts != c.counts || r.refused != c.refused || r.windows != 5 || r.share != c.shares || r.shares != 3 {
			t.Errorf("the last %d: %+v, %d of %d refused, shares %v of %d", c.newest, r.counts, r.refused, r.windows, r.share, r.shares)
		}
		// Such short prompts are never cached.
		if r.billed.Tokens != c.tokens || r.billed.Paid != float64(c.tokens) || r.billedOpenAI.Paid != float64(c.tokens) {
			t.Errorf("the last %d: %+v and %+v, not %d tokens", c.newest, r.billed, r.billedOpenAI, c.tokens)
		}
		var table bytes.Buffer
		printWindows(&table, []*measured{r})
		if strings.Contains(table.String(), "NaN") {
			t.Error(table.String())
		}
	}
}

func TestReshape(t *testing.T) {
	for shape, want := range map[string]string{
		"single": "[My order is #W1234567.|Refund mia_li_3668.] [Remember 12345.]",
		"braid2": "[My order is #W1234567.|Remember 12345.|Refund mia_li_3668.]",
		"chain":  "[My order is #W1234567.|Refund mia_li_3668.|Remember 12345.]",
		"braid4": "--shape braid4 needs 4 transcripts, and there are 2",
		"braid1": `--shape: "braid1" is not "single", "chain" or "braid" with a number above 1`,
	} {
		all, err := readRecordings("testdata/windows")
		if err != nil {
			t.Fatal(err)
		}
		all, err = reshape(all, shape)
		var sessions []string
		for _, r := range all {
			var said []string
			ids := map[string]string{}
			for _, turn := range r.turns {
				m, err := facts.Parse(turn[0])
				if err != nil {
					t.Fatal(err)
				}
				said = append(said, m.Text)
				if !turn.closed() {
					t.Errorf("%s: %s is not closed", shape, turn)
				}
				for _, raw := range turn {
					var m struct {
						ToolCallID string `json:"tool_call_id"`
					}
					if json.Unmarshal(raw, &m) != nil || m.ToolCallID != "" && ids[m.ToolCallID] != "" {
						t.Errorf("%s: %s has the id of another call", shape, raw)
					}
					ids[m.ToolCallID] = m.ToolCallID
				}
			}
			sessions = append(sessions, fmt.Sprintf("[%s]", strings.Join(said, "|")))
		}
		got := strings.Join(sessions, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, not %s", shape, got, want)
		}
	}
}

// Chats in the format of BEAM have turns with a text.
func TestTurnsOfChats(t *testing.T) {
	all, err := parseRecordings(json.RawMessage(`[{"id":1,"turns":[{"role":"user","text":"<a>"},{"role":"assistant","text":"b"},{"role":"user","text":"c"}]}]`))
	if err != nil || len(all) != 1 || len(all[0].turns) != 2 || len(all[0].turns[0]) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if m, err := facts.Parse(all[0].turns[0][0]); err != nil || m.Text != "<a>" {
		t.Errorf("%+v, %v", m, err)
	}
}
