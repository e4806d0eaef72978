package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// TestTextFormat renders the window as one flat text.
func TestTextFormat(t *testing.T) {
	c := own(t)
	if w := c.assemble(object{"format": "text"}); w.Text != "(first turn — no prior context)" {
		t.Errorf("empty: %q", w.Text)
	}
	c.turn("", user("one"), assistant("uno")).want(201)
	c.turn("", user("two")).want(201)
	w := c.assemble(object{"format": "text"})
	for _, line := range []string{"User (turn 1): one", "Assistant: uno", "User (turn 2): two"} {
		if !strings.Contains(w.Text, line) {
			t.Errorf("text lacks %q: %q", line, w.Text)
		}
	}
	if strings.Count(w.Text, "Assistant:") != 1 {
		t.Errorf("a turn without an answer shows no assistant line: %q", w.Text)
	}
}

// TestMarkdownToolResults renders a result with its call's input.
func TestMarkdownToolResults(t *testing.T) {
	c := own(t)
	c.turn("", user("find"), calling("c", "search_knowledge_base", `{"query":"auth"}`),
		result("c", `{"results":[]}`)).want(201)
	w := c.assemble(object{"tool_results": "markdown"})
	list := spoken(t, w)
	if len(list) != 3 {
		t.Fatalf("window %q", list)
	}
	pieces := []string{"## Tool: search_knowledge_base", "**Input:**", `"query": "auth"`, "**Output:**",
		`"results": []`}
	for _, piece := range pieces {
		if !strings.Contains(list[2], piece) {
			t.Errorf("the result lacks %q: %q", piece, list[2])
		}
	}
	if faults := providerFaults(hard.Chat, w.Messages); len(faults) > 0 {
		t.Error(faults)
	}
}

// TestTokens checks the published way to count: three tokens for each message, its role, its content.
func TestTokens(t *testing.T) {
	c := own(t)
	var answer turnAnswer
	c.turn("", user("hello world"), assistant("hello world")).want(201).into(&answer)
	var counts []int
	for _, m := range answer.Messages {
		counts = append(counts, m.Tokens)
	}
	if !slices.Equal(counts, []int{6, 6}) {
		t.Errorf("tokens %v, want 3 + 1 + 2 each", counts)
	}
}

// TestBudgetTooSmall checks that the error names the tokens needed and allowed.
func TestBudgetTooSmall(t *testing.T) {
	c := own(t)
	c.turn("", user("book"), calling("c", "f", "{}"), result("c", "done")).want(201)
	p := c.post(c.path("/context"), object{"budget": object{"max_messages": 2}}).wantCode(422, "budget_too_small")
	if p.Needed == nil || p.Allowed == nil || *p.Needed != 3 || *p.Allowed != 2 {
		t.Errorf("needed and allowed: %+v", p)
	}
	p = c.post(c.path("/context"), object{"budget": object{"max_tokens": 10}}).wantCode(422, "budget_too_small")
	if p.Needed == nil || *p.Needed <= 10 || *p.Allowed != 10 {
		t.Errorf("needed and allowed: %+v", p)
	}
	c.post(c.path("/context"), object{"budget": object{"context_window": 100, "reserve_tokens": 100}}).problem(422)
	c.post(c.path("/context"), object{"budget": object{"max_messages": -1}}).problem(422)
}

// TestPending: pending messages count as the next turn, and may answer a stored call.
func TestPending(t *testing.T) {
	c := own(t)
	c.turn("", user("book"), calling("c", "f", "{}")).want(201)
	w := c.assemble(object{"pending": []object{result("c", "late"), user("and now?")}, "explain": true})
	equal(t, "window", spoken(t, w), []string{"user: book", "assistant: {}", "tool: late", "user: and now?"})
	var rows []string
	for _, r := range w.Report {
		rows = append(rows, r.Action)
	}
	equal(t, "rows", rows, []string{"keep", "keep", "keep", "keep"})
	equal(t, "nothing is stored", spoken(t, c.assemble(object{})), []string{"user: book", "assistant: {}"})
	w = c.assemble(object{"pending": []object{user("forget it")}})
	if faults := providerFaults(hard.Chat, w.Messages); len(faults) > 0 || len(w.Messages) != 4 {
		t.Errorf("an unanswered call: %v in %s", faults, w.Messages)
	}
	c.post(c.path("/context"), object{"pending": []object{result("no", "x")}}).problem(422)
}

// TestMessagesAsPosted: bytes that re-encoding would change are returned unchanged.
func TestMessagesAsPosted(t *testing.T) {
	c := own(t)
	posted := `{"z":1.50,"content":"\u00e9 é <&> \/","role":"user","big":12345678901234567890,"e":1E2,"name":"Al"}`
	c.post(c.path("/turns"), []byte(`{"messages":[`+posted+`]}`)).want(201)
	w := c.assemble(object{})
	if len(w.Messages) != 1 || string(w.Messages[0]) != posted {
		t.Errorf("posted %s\nshown  %s", posted, w.Messages)
	}
	var page struct {
		Data []struct{ Message json.RawMessage }
	}
	c.get(c.path("/sessions/dashboard/messages")).want(200).into(&page)
	if len(page.Data) != 1 || string(page.Data[0].Message) != posted {
		t.Errorf("listed %s", page.Data)
	}
}
