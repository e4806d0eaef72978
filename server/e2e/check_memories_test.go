package e2e

import (
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// remembering is the memories in an ask. Known are all memories that exist.
type remembering struct {
	query string
	limit int
	known []memory
}

// remembered is a memory that was found for a window.
type remembered struct {
	Key      string `json:"key"`
	Version  int    `json:"version"`
	Category string `json:"category"`
	Injected bool   `json:"injected"`
}

// memoriesRow is the message_id of the row of a window's memories.
const memoriesRow = "memories"

// memoriesHead begins the message that contains the memories.
const memoriesHead = "Memories that may matter here."

// knowledge stores memories of all lengths and returns them.
func (c *conversation) knowledge() (known []memory) {
	c.t.Helper()
	for i, content := range []string{"Ada lives in Lisbon", "Ada builds bridges\nof stone", "Grace likes olives",
		"The bridge of Lisbon " + strings.Repeat("is long ", 60), "日本語 and an \U0001f994",
		strings.Repeat("Ada said so. ", 900)} {
		known = append(known, c.remember(object{"key": sprintf("fact%d", i), "content": content,
			"category": []string{"core", "daily"}[i%2]}))
	}
	return known
}

// lineOf returns a memory as the message shows it.
func lineOf(m memory) string {
	return "\n- [" + m.Category + "] " + m.Key + ": " + strings.ReplaceAll(m.Content, "\n", "\n  ")
}

// checkMemories checks the memories of a window. The answer lists those found, the best first. One message, after the
// summary and before everything else, has as many of them as fit, whole and as stored. The report has one row for it.
// checkUsage checks that its tokens are counted.
func (s *scene) checkMemories() {
	var rows []row
	for _, r := range s.injected {
		if r.MessageID == memoriesRow {
			rows = append(rows, r)
		}
	}
	at, text := s.memoriesShown()
	if s.ask.memories == nil {
		if len(rows) > 0 || s.win.Memories != nil || text != "" {
			s.fault("memories: nobody asked for %v, row %+v, text %q", s.win.Memories, rows, clip(text, 200))
		}
		return
	}
	if s.win.Memories == nil || len(s.win.Memories) > s.ask.memories.limit {
		s.fault("memories: %d told, at most %d asked for", len(s.win.Memories), s.ask.memories.limit)
	}
	want, shown := "", 0
	left := 0 // bytes of the shortest memory that is not shown
	for _, m := range s.win.Memories {
		j := slices.IndexFunc(s.ask.memories.known, func(k memory) bool { return k.Key == m.Key })
		if j < 0 {
			s.fault("memories: %q is told, and nobody stored it", m.Key)
			continue
		}
		k := s.ask.memories.known[j]
		if m.Version != k.Version || m.Category != k.Category {
			s.fault("memories: told %+v, stored %+v", m, k)
		}
		if m.Injected {
			want += lineOf(k)
			shown++
			if left > 0 && left < len(lineOf(k))/4 { // a memory that does not fit is longer than those that fit after it
				s.fault("memories: %q is shown, a better and shorter one is not", m.Key)
			}
		} else if n := len(lineOf(k)); left == 0 || n < left {
			left = n
		}
	}
	if shown == 0 {
		if len(rows) > 0 || text != "" {
			s.fault("memories: none is told to be shown; rows %+v, text %q", rows, clip(text, 200))
		}
		return
	}
	if len(rows) != 1 || rows[0].Policy != "mneme" || rows[0].ReasonCode != "recalled" || rows[0].TokensAfter < 1 {
		s.fault("memories: %d are shown, with the rows %+v", shown, rows)
	}
	if head, list, _ := strings.Cut(text, "\n"); !strings.HasPrefix(head, memoriesHead) || "\n"+list != want {
		s.fault("memories: the message is %q, want %q", clip(text, 400), clip(want, 400))
	}
	if first := s.beforeMemories(); at != first {
		s.fault("memories: the message stands at %d, want %d", at, first)
	}
}

// beforeMemories returns how many system messages precede the memories: the request's, and the summary.
func (s *scene) beforeMemories() (n int) {
	if s.ask.system != "" && s.ask.target() != hard.Anthropic {
		n++
	}
	if s.win.Summary != nil {
		n++
	}
	return n
}

// memoriesShown finds the message of memories, and what precedes it: messages, or in Anthropic's system text the
// summary.
func (s *scene) memoriesShown() (at int, text string) {
	if s.ask.target() == hard.Anthropic {
		before, rest, found := strings.Cut(strings.TrimPrefix(s.win.System, s.ask.system), memoriesHead)
		if !found {
			return 0, ""
		}
		if strings.TrimSpace(before) != "" {
			at++
		}
		// In the system text another notice may follow after an empty line; known memories contain none.
		rest, _, _ = strings.Cut(rest, "\n\n")
		return at, memoriesHead + rest
	}
	list, _ := flatten(s.ask.target(), s.win.Messages)
	for _, e := range list {
		if e.role != "user" && e.role != "assistant" && strings.HasPrefix(e.text, memoriesHead) {
			return e.at, e.text
		}
	}
	return 0, ""
}
