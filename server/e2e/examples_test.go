package e2e

import (
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/testdata/hard"
)

// TestDepth: of 30 turns the newest 20 are shown in full, and only the question of the older 10.
func TestDepth(t *testing.T) {
	c := own(t)
	var want []string
	for n := 1; n <= 30; n++ {
		question, answer := fmt.Sprintf("question %d", n), fmt.Sprintf("answer %d", n)
		c.turn("s", user(question), assistant(answer)).want(201)
		if n <= 10 {
			want = append(want, fmt.Sprintf("user: [earlier question] (turn %d): %s", n, question))
		} else {
			want = append(want, "user: "+question, "assistant: "+answer)
		}
	}
	equal(t, "window of 30 turns", spoken(t, c.assemble(object{"session_id": "s"})), want)
	c.do("PATCH", c.path("/settings"), object{"session_history_depth": 1}).want(200)
	got := spoken(t, c.assemble(object{"session_id": "s", "budget": object{"max_messages": 3}}))
	if n := len(got); n < 3 || got[n-2] != "user: question 30" || got[n-1] != "assistant: answer 30" ||
		got[n-3] != "user: [earlier question] (turn 29): question 29" {
		t.Errorf("window at depth 1: %q", got)
	}
	c.do("PATCH", c.path("/settings"), object{"session_history_depth": 0}).problem(422)
	c.do("PATCH", c.path("/settings"), object{"session_history_depth": 101}).problem(422)
}

// TestQuestionInBrackets: a user's message is shown whole even if it looks like a compressed turn.
func TestQuestionInBrackets(t *testing.T) {
	c := own(t)
	c.turn("s", user("first"), user("[earlier question] (turn 1): quoted"), assistant("yes")).want(201)
	c.turn("s", user("second")).want(201)
	shallow := []object{{"policy": "depth-compress", "config": object{"depth": 1}}}
	equal(t, "window", spoken(t, c.assemble(object{"session_id": "s", "pipeline": shallow})),
		[]string{"user: [earlier question] (turn 1): first\n[earlier question] (turn 1): quoted", "user: second"})
}

// TestLateResult: a result that arrives in a later turn is shown after its call and counts to its call's turn.
func TestLateResult(t *testing.T) {
	c := own(t)
	c.turn("s", user("first"), calling("c", "f", "{}")).want(201)
	c.turn("s", user("second"), result("c", "late"), assistant("done")).want(201)
	c.turn("s", user("third")).want(201)
	equal(t, "whole", spoken(t, c.assemble(object{"session_id": "s"})),
		[]string{"user: first", "assistant: {}", "tool: late", "user: second", "assistant: done", "user: third"})
	for depth, want := range map[int][]string{
		2: {"user: [earlier question] (turn 1): first", "user: second", "assistant: done", "user: third"},
		1: {"user: [earlier question] (turn 1): first", "user: [earlier question] (turn 2): second", "user: third"},
	} {
		w := c.assemble(object{"session_id": "s", "pipeline": []object{
			{"policy": "depth-compress", "config": object{"depth": depth}, "on_error": "error"}}})
		equal(t, fmt.Sprintf("depth %d", depth), spoken(t, w), want)
	}
}

// TestViewerInDelegation: a viewer sees its own delegation, and the top level if it asks for the whole; the main agent
// sees results, or everything.
func TestViewerInDelegation(t *testing.T) {
	c := own(t)
	in := func(delegation string, m object) object { m["delegation_id"] = delegation; return m }
	c.turn("s", user("plan a trip"), in("A", assistant("A looks for flights")), in("A", calling("c1", "search", "{}")),
		in("A", result("c1", "three flights")), in("B", assistant("B looks for hotels")), assistant("done")).want(201)
	whole := false
	ask := func(delegation any) []string {
		return spoken(t, c.assemble(object{"session_id": "s", "viewer": object{"agent": "x",
			"delegation_id": delegation, "whole": whole}}))
	}
	equal(t, "viewer in A", ask("A"), []string{"assistant: A looks for flights", "assistant: {}", "tool: three flights"})
	equal(t, "viewer in B", ask("B"), []string{"assistant: B looks for hotels"})
	equal(t, "main", ask(nil), []string{"user: plan a trip", "assistant: A looks for flights", "assistant: {}",
		"tool: three flights", "assistant: [result from B] B looks for hotels", "assistant: done"})
	whole = true
	equal(t, "viewer in A", ask("A"), []string{"user: plan a trip", "assistant: A looks for flights", "assistant: {}",
		"tool: three flights", "assistant: done"})
	equal(t, "viewer in B", ask("B"), []string{"user: plan a trip", "assistant: B looks for hotels", "assistant: done"})
	equal(t, "main", ask(nil), []string{"user: plan a trip", "assistant: A looks for flights", "assistant: {}",
		"tool: three flights", "assistant: B looks for hotels", "assistant: done"})
}

// TestInvalidTurns: an invalid turn is refused with the index of the wrong message, and nothing is stored.
func TestInvalidTurns(t *testing.T) {
	c := own(t)
	c.turn("s", user("hello"), assistant("hi")).want(201)
	before := c.get(c.path("/sessions/s")).want(200).body
	for _, bad := range hard.InvalidTurns() {
		t.Run(bad.Name, func(t *testing.T) {
			c := *c
			c.client = c.in(t)
			p := c.post(c.path("/turns"), object{"session_id": "s", "messages": bad.Input}).problem(422)
			if len(p.Errors) == 0 || p.Errors[0].Index == nil || *p.Errors[0].Index != bad.Index ||
				p.Errors[0].Code == "" {
				t.Errorf("errors %+v, want the first at index %d", p.Errors, bad.Index)
			}
		})
	}
	c.post(c.path("/turns"), object{"session_id": "s", "messages": []object{user("x")}, "sesion": "typo"}).problem(422)
	if after := c.get(c.path("/sessions/s")).want(200).body; string(after) != string(before) {
		t.Errorf("the session changed:\n%s\n%s", before, after)
	}
	equal(t, "window", spoken(t, c.assemble(object{"session_id": "s"})), []string{"user: hello", "assistant: hi"})
	var next turnAnswer
	c.turn("s", user("again")).want(201).into(&next)
	if next.Turn != 2 {
		t.Errorf("the next turn is numbered %d", next.Turn)
	}
}

// TestSystemIsNeverStored: system and developer messages are reported as skipped and never shown.
func TestSystemIsNeverStored(t *testing.T) {
	c := own(t)
	var answer turnAnswer
	c.turn("s", object{"role": "system", "content": "S"}, user("u"), object{"role": "developer", "content": "D"}).
		want(201).into(&answer)
	if len(answer.Messages) != 1 || len(answer.Skipped) != 2 || answer.Skipped[1].Index != 2 {
		t.Errorf("answer %+v", answer)
	}
	equal(t, "window", spoken(t, c.assemble(object{"session_id": "s", "system": "now"})),
		[]string{"system: now", "user: u"})
	equal(t, "without", spoken(t, c.assemble(object{"session_id": "s"})), []string{"user: u"})
}

// TestDashboard: the default session always exists, and is listed once it has a turn.
func TestDashboard(t *testing.T) {
	c := own(t)
	listed := func() (out []string) {
		var list struct{ Data []struct{ ID string } }
		c.get(c.path("/sessions")).want(200).into(&list)
		for _, s := range list.Data {
			out = append(out, s.ID)
		}
		return out
	}
	c.get(c.path("/sessions/dashboard")).want(200)
	c.get(c.path("/sessions/never")).problem(404)
	equal(t, "sessions before", listed(), nil)
	var answer turnAnswer
	c.turn("", user("hello")).want(201).into(&answer)
	if answer.SessionID != "dashboard" || answer.Turn != 1 {
		t.Errorf("answer %+v", answer)
	}
	equal(t, "sessions after", listed(), []string{"dashboard"})
	equal(t, "window", spoken(t, c.assemble(object{})), []string{"user: hello"})
	equal(t, "unknown session", spoken(t, c.assemble(object{"session_id": "never"})), nil)
}

// TestBackgroundSession: a background session keeps a log, yet every run starts with an empty history.
func TestBackgroundSession(t *testing.T) {
	c := own(t)
	c.post(c.path("/sessions"), object{"id": "cron", "kind": "background"}).want(201)
	c.turn("cron", user("tick"), assistant("tock")).want(201)
	w := c.assemble(object{"session_id": "cron", "pending": []object{user("tick again")}, "explain": true})
	equal(t, "window", spoken(t, w), []string{"user: tick again"})
	if len(w.Report) != 1 || w.Report[0].MessageID != "pending:0" {
		t.Errorf("report %+v", w.Report)
	}
	var session struct{ Turns, Messages int }
	c.get(c.path("/sessions/cron")).want(200).into(&session)
	if session.Turns != 1 || session.Messages != 2 {
		t.Errorf("session %+v", session)
	}
}
