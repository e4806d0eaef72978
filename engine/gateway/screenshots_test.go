package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/chat"
	"github.com/seed-0906e6bc/mneme/testdata/providers"
)

// TestManyScreenshots has turns with more pictures than one commit holds, in every mode. They are stored, the next turn is
// too, and the provider gets the pictures.
func TestManyScreenshots(t *testing.T) {
	for mode, pictures := range map[string]int{"observe": 9, "recall": 9, "assemble": 20} {
		a := newAgent(t, chat.OpenAIChat, "gpt-4.1", mode)
		parts := []any{map[string]any{"type": "text", "text": "Which of these screens shows the form?"}}
		for i := range pictures {
			parts = append(parts, map[string]any{"type": "image_url",
				"image_url": map[string]any{"url": "data:image/png;base64," + strings.Repeat(fmt.Sprintf("%08d", i), 1<<17)}})
		}
		a.history = append(a.history, encode(a, map[string]any{"role": "user", "content": parts}))
		for _, question := range []string{"", "And which the list?"} {
			if question != "" {
				a.ask(question)
			}
			_, stored := a.call(providers.Say("The last one."))
			if stored.Turn == 0 || stored.Session != "s" || a.out.Mode != mode || a.out.DecisionID == "" {
				t.Fatalf("%s: %q: %+v, mode %s, decision %q", mode, question, stored, a.out.Mode, a.out.DecisionID)
			}
			if sent := a.sent[len(a.sent)-1]; strings.Count(string(sent), "data:image/png;base64,") != pictures {
				t.Fatalf("%s: %q: the provider got %d bytes", mode, question, len(sent))
			}
		}
		a.Sound()
	}
}
