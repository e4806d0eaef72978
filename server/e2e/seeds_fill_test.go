package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/message/tiktoken"
)

// postTurns posts n turns of a question, an optional call with its result, and an answer.
func (c *conversation) postTurns(session string, n int, withCall bool) {
	c.t.Helper()
	for i := 1; i <= n; i++ {
		id := fmt.Sprint("call_", i)
		messages := []any{user(fmt.Sprint("question ", i))}
		if withCall {
			messages = append(messages, calling(id, "look", "{}"), result(id, fmt.Sprint("found ", i)))
		}
		c.turn(session, append(messages, assistant(fmt.Sprint("answer ", i)))...).want(201)
	}
}

// shownTurns counts the turns of a window that are in full, and those of which the question is left. Both are contiguous
// and end with the newest turn, n.
func shownTurns(t *testing.T, w *window, n int) (full, questions int) {
	t.Helper()
	for _, line := range spoken(t, w) {
		if strings.HasPrefix(line, "user: [earlier question] (turn ") {
			questions++
		} else if strings.HasPrefix(line, "user: question ") {
			full++
		}
	}
	text := strings.Join(spoken(t, w), "\n") + "\n"
	for i := 1; i <= n; i++ {
		asked := fmt.Sprintf("question %d\n", i)
		if shown := strings.Contains(text, asked); shown != (i > n-full-questions) {
			t.Errorf("question %d of %d is shown: %v; %d in full, %d questions", i, n, shown, full, questions)
		}
		if shown := strings.Contains(text, fmt.Sprintf("answer %d\n", i)); shown != (i > n-full) {
			t.Errorf("answer %d of %d is shown: %v; %d in full, %d questions", i, n, shown, full, questions)
		}
	}
	return full, questions
}

// "Capped at 50 messages", the oldest first: 25 turns of two messages are 50; with one more, 20 turns stay in full and of
// 6 the question. No call is without its result, however the cap falls.
func seed000Fifty(t *testing.T) {
	c := own(t)
	c.postTurns("two", 25, false)
	for n := 25; n <= 26; n++ {
		w := c.assemble(object{"session_id": "two"})
		full, questions := shownTurns(t, w, n)
		if want := [...]int{25, 20}[n-25]; full != want || questions != n-want || w.Usage.HistoryMessages != 2*want {
			t.Errorf("of %d turns %d are in full and %d questions", n, full, questions)
		}
		c.turn("two", user("question 26"), assistant("answer 26")).want(201)
	}
	for n := 1; n <= 30; n++ {
		id := fmt.Sprint("call_", n)
		c.turn("calls", user("q"), calling(id, "look", "{}"), result(id, "found"), assistant("a")).want(201)
		w := c.assemble(object{"session_id": "calls"})
		if faults := providerFaults("openai.chat", w.Messages); len(faults) > 0 || w.Usage.HistoryMessages > 50 ||
			4*n <= 50 && w.Usage.HistoryMessages != 4*n {
			t.Errorf("after %d turns %d messages: %s", n, w.Usage.HistoryMessages, faults)
		}
	}
}

// "Up to the 50 most recent messages … maximum of 8,000 tokens": nothing goes while everything fits. A cut leaves at most
// half of each limit, and then the window only grows until the next cut.
func seed001Fills(t *testing.T) {
	c := own(t)
	var last *window
	cuts, fill, after := 0, 0.0, 0
	for n := range 80 {
		id := fmt.Sprint("call_", n)
		c.turn("s", user(fmt.Sprint("order ", n)), calling(id, "look", fmt.Sprintf(`{"order":"A%04d"}`, n)),
			result(id, fmt.Sprintf("order A%04d:%s", n, strings.Repeat(" shipped", 60*(n%5)))), assistant("Done.")).want(201)
		w := c.assemble(object{"session_id": "s", "explain": true})
		whole := w.Usage.ConsideredMessages <= 50 && w.Usage.ConsideredTokens < 7990
		left := fates(w)
		if whole && left["drop"]+left["compress"]+left["truncate"] > 0 {
			t.Fatalf("after %d turns everything fits, and it goes: %v", n+1, left)
		}
		if last != nil && w.Usage.HistoryMessages < last.Usage.HistoryMessages {
			cuts++
			if w.Usage.HistoryMessages-4 > 25 || w.Usage.HistoryTokens > 4000 { // the newest turn came behind the cut
				t.Errorf("after %d turns a cut leaves %d messages, %d tokens", n+1, w.Usage.HistoryMessages, w.Usage.HistoryTokens)
			}
		} else if last != nil && w.Usage.HistoryMessages != last.Usage.HistoryMessages+4 {
			t.Errorf("after %d turns %d messages, before %d", n+1, w.Usage.HistoryMessages, last.Usage.HistoryMessages)
		}
		if !whole {
			after++
			fill += max(float64(w.Usage.HistoryMessages)/50, float64(w.Usage.Tokens)/8000)
		}
		last = w
	}
	if mean := fill / float64(after); cuts < 3 || mean < .6 || mean > .8 {
		t.Errorf("%d cuts, the fuller limit is %.2f full", cuts, mean)
	}
}

// fates counts a report's rows by action.
func fates(w *window) map[string]int {
	out := map[string]int{}
	for _, r := range w.Report {
		out[r.Action] += max(r.Count, 1)
	}
	return out
}

// "For a conversation with 30 turns and a depth of 20: turns 1–10 appear as [earlier question] … turns 11–30 in full", at
// the default and set. "The boundary moves": 21 turns are 1 and 20, of 100 the newest questions that have room and 20.
func seed003Thirty(t *testing.T) {
	c := own(t)
	wide := object{"max_messages": 1000}
	c.postTurns("s", 20, false)
	if full, questions := shownTurns(t, c.assemble(object{"session_id": "s"}), 20); full != 20 || questions != 0 {
		t.Errorf("of as many turns as the depth %d are in full, %d questions", full, questions)
	}
	c.postTurns("thirty", 30, false)
	c.postTurns("calls", 30, true)
	for _, session := range []string{"thirty", "calls"} {
		if full, questions := shownTurns(t, c.assemble(object{"session_id": session, "budget": wide}), 30); full != 20 || questions != 10 {
			t.Errorf("%s: of 30 turns %d are in full and %d questions", session, full, questions)
		}
	}
	c.do("PATCH", c.path("/settings"), object{"session_history_depth": 20}).want(200)
	for _, test := range []struct{ turns, questions int }{{20, 0}, {21, 1}, {30, 10}, {100, 27}} {
		session := fmt.Sprint("set-", test.turns)
		c.postTurns(session, test.turns, false)
		full, questions := shownTurns(t, c.assemble(object{"session_id": session}), test.turns)
		if full != 20 || questions < test.questions || questions > test.questions && test.turns < 100 {
			t.Errorf("set: of %d turns %d are in full and %d questions", test.turns, full, questions)
		}
	}
}

// "Older turns are still included but in a compressed form": the newest of their questions that a sixteenth of the budget
// holds, and all where question_tokens says so.
func seed003Questions(t *testing.T) {
	c := own(t)
	long := strings.Repeat("and what about the numbers of the last quarter ", 8)
	for n := range 60 {
		c.turn("s", user(fmt.Sprint(n, " ", long)), assistant("fine")).want(201)
	}
	tokens := counts(t)
	shown := func(request object) (questions, cost int) {
		request["session_id"] = "s"
		for _, m := range c.assemble(request).Messages {
			if strings.Contains(string(m), "[earlier question]") {
				questions++
				var q struct{ Content string }
				if err := json.Unmarshal(m, &q); err != nil {
					t.Fatal(err)
				}
				cost += tokens(q.Content) + 4
			}
		}
		return questions, cost
	}
	if n, cost := shown(object{}); n < 10 || cost > 500 {
		t.Errorf("%d questions take %d tokens of 500", n, cost)
	}
	if n, _ := shown(object{"pipeline": []object{{"policy": "tool-pair-trim", "config": object{"question_tokens": 5000}}}}); n < 38 {
		t.Errorf("%d questions where all have room", n)
	}
}

// counts returns a counter of tokens.
func counts(t *testing.T) func(string) int {
	t.Helper()
	counter, err := tiktoken.New()
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) int { return counter.Count(tiktoken.O200K, text) }
}

// TestWindowsThatFailedUsers gives each input of users for whom windows lost something that had room.
func TestWindowsThatFailedUsers(t *testing.T) {
	tokens := counts(t)
	log := strings.Builder{} // about 19 KB
	for n := 0; log.Len() < 19<<10; n++ {
		fmt.Fprintf(&log, "2026-11-%02d 12:%02d:07 worker %d: request %d took %d ms\n", n%28+1, n%60, n%7, n*31, n*n%997)
	}
	t.Run("a session that fits", func(t *testing.T) {
		c := own(t)
		for n := range 7 {
			id := fmt.Sprint("call_", n)
			messages := []any{user(fmt.Sprint("order ", n)), calling(id, "look", "{}"), result(id, log.String()[n*2000:n*2000+2200])}
			c.turn("s", messages...).want(201)
		}
		w := c.assemble(object{"session_id": "s", "explain": true})
		if left := fates(w); len(w.Messages) != 21 || left["keep"] != 21 || w.Usage.Tokens < 6000 {
			t.Errorf("%d messages, %d tokens: %v", len(w.Messages), w.Usage.Tokens, left)
		}
	})
	t.Run("one result of 18 KB", func(t *testing.T) {
		c := own(t)
		text := log.String()[:13<<10]
		c.turn("s", user("read it"), calling("c", "read", "{}"), result("c", text)).want(201)
		got := spoken(t, c.assemble(object{"session_id": "s"}))
		if n := tokens(text); n < 5000 || got[len(got)-1] != "tool: "+text {
			t.Errorf("of %d tokens stay %d", n, tokens(got[len(got)-1]))
		}
	})
	t.Run("a pasted log", func(t *testing.T) {
		c := own(t)
		paste := log.String()
		for tokens(paste) > 7200 {
			paste = paste[:len(paste)-200]
		}
		c.turn("s", user(paste), assistant("It fails at line 12.")).want(201)
		w := c.assemble(object{"session_id": "s", "pending": []object{user(strings.Repeat("Why does it fail there? ", 200))}})
		got := spoken(t, w)
		i := 0
		for i < len(got)-1 && !strings.HasPrefix(got[i], "user: "+paste[:100]) {
			i++
		}
		if n := tokens(got[i]); n > 600 || n < 400 || i+1 >= len(got) || got[i+1] != "assistant: It fails at line 12." {
			t.Errorf("the paste has %d tokens in a window of %d messages: %.200q", n, len(got), got)
		}
	})
}
