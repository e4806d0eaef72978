package window_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// Seed 003: 30 turns with a depth of 20 show turns 1 to 10 as their questions and 11 to 30 in full.
func TestSeed003DepthCompresses(t *testing.T) {
	k := enginetest.New(t)
	for i := 1; i <= 30; i++ {
		k.Post("dashboard", enginetest.User(fmt.Sprint("question ", i)), enginetest.Assistant(fmt.Sprint("answer ", i)))
	}
	w := k.Ask(`{"explain":true,"budget":{"max_messages":0}}`)
	if len(w.Messages) != 50 {
		t.Fatalf("%d messages, want 10 compressed and 40 in full", len(w.Messages))
	}
	for i := range 10 {
		want := fmt.Sprintf(`{"role":"user","content":"[earlier question] (turn %d): question %d"}`, i+1, i+1)
		if string(w.Messages[i]) != want {
			t.Errorf("message %d is %s, want %s", i, w.Messages[i], want)
		}
	}
	for i := 11; i <= 30; i++ {
		at := 10 + 2*(i-11)
		if string(w.Messages[at]) != enginetest.User(fmt.Sprint("question ", i)) || string(w.Messages[at+1]) != enginetest.Assistant(fmt.Sprint("answer ", i)) {
			t.Errorf("turn %d is %s %s", i, w.Messages[at], w.Messages[at+1])
		}
	}
	if len(w.Report) != 60 || w.Report[0].Action != "compress" || w.Report[1].Action != "drop" || w.Report[59].Action != "keep" {
		t.Errorf("report of %d rows: %+v", len(w.Report), w.Report[:2])
	}
	k.Replay(w.DecisionID)
	k.Post("dashboard", enginetest.User("later"))
	k.Replay(w.DecisionID)
	flat := k.Ask(`{"format":"text","budget":{"max_messages":0}}`)
	if !strings.Contains(flat.Text, "[earlier question] (turn 1): question 1\n") || !strings.Contains(flat.Text, "User (turn 30): question 30\nAssistant: answer 30") {
		t.Error(flat.Text)
	}
}

// Seed 001: a viewer in delegation A sees its own and top-level messages, not B's.
func TestSeed001DelegationScope(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("top"), `{"role":"assistant","content":"a's","delegation_id":"A"}`, `{"role":"assistant","content":"b's","delegation_id":"B"}`)
	w := k.Ask(`{"session_id":"s","explain":true,"viewer":{"agent":"x","delegation_id":"A","whole":true}}`)
	if len(w.Messages) != 2 || string(w.Messages[1]) != `{"role":"assistant","content":"a's"}` {
		t.Fatalf("%s", w.Raw)
	}
	if w.Report[2].Action != "drop" || w.Report[2].ReasonCode != "other_delegation" {
		t.Fatalf("%+v", w.Report[2])
	}
	// Whatever the pipeline, the law holds the scope.
	w = k.Ask(`{"session_id":"s","explain":true,"viewer":{"delegation_id":"A","whole":true},"pipeline":[]}`)
	if len(w.Messages) != 2 || w.Pipeline[0].Outcome != "fallback" || !strings.Contains(w.Pipeline[0].Detail, "delegation_scope") {
		t.Fatalf("%s", w.Raw)
	}
	if w = k.Ask(`{"session_id":"s"}`); len(w.Messages) != 3 {
		t.Fatalf("the main agent sees %s", w.Raw)
	}
}

// A window without a policy has an empty list of steps, in its answer and in its decision, which can be replayed.
func TestNoPipeline(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s", enginetest.User("question"))
	w := k.Ask(`{"session_id":"s","pipeline":[]}`)
	d, err := k.Trials.Decision(t.Context(), k.Admin, ident.DefaultProject, w.DecisionID)
	if err != nil || d.Pipeline == nil || len(d.Pipeline) != 0 || !strings.Contains(string(w.Raw), `"pipeline":[]`) {
		t.Errorf("%s is explained as %+v, %v", w.Raw, d, err)
	}
	k.Replay(w.DecisionID)
}
