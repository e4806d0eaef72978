package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// remembers returns a valid window that shows the first two of three memories found.
func remembers() (*history, ask, *window) {
	h, a := sample()
	w := honest(h, a)
	a.memories = &remembering{limit: 3, known: []memory{{Key: "home", Content: "Lisbon\nin the old town",
		Category: "core", Version: 2},
		{Key: "note", Content: "tea at five", Category: "daily", Version: 1},
		{Key: "long", Content: strings.Repeat("long ", 50), Category: "core", Version: 1}}}
	text := memoriesHead
	for i, m := range a.memories.known {
		w.Memories = append(w.Memories, remembered{m.Key, m.Version, m.Category, i < 2})
		if i < 2 {
			text += lineOf(m)
		}
	}
	raw, _ := json.Marshal(object{"role": "system", "content": text})
	w.Messages = slices.Insert(w.Messages, 1, json.RawMessage(raw))
	w.Report = append(w.Report, row{MessageID: memoriesRow, Action: "inject", Policy: "mneme", ReasonCode: "recalled",
		TokensAfter: 20})
	w.Usage.Messages, w.Usage.Tokens = w.Usage.Messages+1, w.Usage.Tokens+20
	w.Usage.Parts.System = w.Usage.SystemTokens
	w.Usage.Parts.Memories = 20
	w.Usage.Parts.History = w.Usage.Tokens - 20 - w.Usage.SystemTokens
	w.Usage.Parts.Free = defaultTokens - w.Usage.Parts.History - 20
	return h, a, w
}

// TestMemoriesCheckCanFail makes a valid window with memories invalid in one way at a time; the checker must name the
// fault.
func TestMemoriesCheckCanFail(t *testing.T) {
	last := func(w *window) *row { return &w.Report[len(w.Report)-1] }
	for _, test := range []struct {
		name, want string
		damage     func(*window)
	}{
		{"nothing", "", func(*window) {}},
		{"behind the first message", "the message stands at 2, want 1", func(w *window) {
			w.Messages[1], w.Messages[2] = w.Messages[2], w.Messages[1]
		}},
		{"a changed memory", "memories: the message is", func(w *window) {
			w.Messages[1] = json.RawMessage(strings.Replace(string(w.Messages[1]), "Lisbon", "Porto", 1))
		}},
		{"told and not shown", "memories: the message is", func(w *window) { w.Memories[2].Injected = true }},
		{"a worse one shown", `"long" is shown, a better and shorter one is not`, func(w *window) {
			w.Memories[1].Injected, w.Memories[2].Injected = false, true
		}},
		{"another version", "memories: told", func(w *window) { w.Memories[0].Version = 1 }},
		{"an invented one", "nobody stored it", func(w *window) { w.Memories[2].Key = "other" }},
		{"too many", "at most 3 asked for", func(w *window) { w.Memories = append(w.Memories, w.Memories[2]) }},
		{"shown and not told", "none is told to be shown", func(w *window) {
			w.Memories[0].Injected, w.Memories[1].Injected = false, false
		}},
		{"not told at all", "0 told", func(w *window) { w.Memories = nil }},
		{"no row", "injected rows", func(w *window) { w.Report = w.Report[:len(w.Report)-1] }},
		{"no row of its own", "with the rows []", func(w *window) { last(w).MessageID = "notice:0" }},
		{"no reason", "without a reason", func(w *window) { last(w).ReasonCode = "" }},
		{"not counted", "the rows' sum", func(w *window) { w.Usage.Tokens -= 20 }},
		{"beyond the budget", "budget: ", func(w *window) {
			w.Usage.Tokens, last(w).TokensAfter = w.Usage.Tokens+8000,
				8020
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, a, w := remembers()
			test.damage(w)
			faults := strings.Join(check(h, a, w), "\n")
			if test.want == "" && faults != "" || !strings.Contains(faults, test.want) {
				t.Errorf("want %q, got:\n%s", test.want, faults)
			}
		})
	}
	h, a, w := remembers()
	a.memories = nil
	if faults := strings.Join(check(h, a, w), "\n"); !strings.Contains(faults, "nobody asked") {
		t.Errorf("unasked memories pass: %s", faults)
	}
}
