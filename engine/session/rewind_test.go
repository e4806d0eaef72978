package session_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

func number[T any](n T) *T { return &n }

func rewind(k *enginetest.Kit, once ident.Once, to uint32, revision *uint64) (session.Rewound, error) {
	return k.Sessions.Rewind(k.Context(), k.Admin, once, ident.DefaultProject, "s",
		session.RewindRequest{ToTurn: &to, IfRevision: revision})
}

func wantCode(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	if e := enginetest.WantKind(t, err, kind); e.Code != code && (len(e.Fields) == 0 || e.Fields[0].Code != code) {
		t.Errorf("got %+v, want %s", e, code)
	}
}

// TestRepeatedRequests repeats a rewind, a part of a turn and a fork, as a client does that received no response.
func TestRepeatedRequests(t *testing.T) {
	k := enginetest.New(t)
	for range 3 {
		k.Post("s", enginetest.User("hello"))
	}
	body := func(n byte) ident.Once { return ident.Once{Key: fmt.Sprint("k", n), Body: [32]byte{n}} }
	first, err := rewind(k, body(1), 2, number(uint64(3)))
	if err != nil || first.Revision != 4 || first.LastTurn != 2 || first.Superseded != (session.Superseded{Turns: 1, Messages: 1}) {
		t.Fatalf("%+v, %v", first, err)
	}
	part := session.TurnRequest{SessionID: "s", Continues: true, RewindTo: number(uint32(2)), IfRevision: number(uint64(4)),
		Messages: enginetest.Raw(enginetest.Assistant("hello to you"))}
	said, err := k.Sessions.AppendTurn(k.Context(), k.Admin, body(2), ident.DefaultProject, part)
	if err != nil || said.Turn != 2 || said.Revision != 5 {
		t.Fatalf("%+v, %v", said, err)
	}
	fork := session.ForkRequest{AtTurn: number(uint32(2))}
	made, err := k.Sessions.Fork(k.Context(), k.Admin, body(3), ident.DefaultProject, "s", fork)
	if err != nil || made.LastTurn != 2 || made.Messages != 3 {
		t.Fatalf("%+v, %v", made, err)
	}
	k.Post("s", enginetest.User("and another thing"))
	for range 2 {
		if again, err := rewind(k, body(1), 2, number(uint64(3))); err != nil || again != first {
			t.Errorf("the rewind answers %+v, %v", again, err)
		}
		again, err := k.Sessions.AppendTurn(k.Context(), k.Admin, body(2), ident.DefaultProject, part)
		if err != nil || again.Turn != 2 || again.Revision != 5 || again.Messages[0] != said.Messages[0] {
			t.Errorf("the part answers %+v, %v", again, err)
		}
		copied, err := k.Sessions.Fork(k.Context(), k.Admin, body(3), ident.DefaultProject, "s", fork)
		if err != nil || copied.ID != made.ID {
			t.Errorf("the fork answers %+v, %v", copied, err)
		}
	}
	if s := k.GetSession("s"); s.Turns != 3 || s.Messages != 4 || s.LastTurn != 4 || s.Revision != 6 {
		t.Errorf("the session is %+v", s)
	}
	if n := len(k.SessionIDs()); n != 2 {
		t.Errorf("there are %d sessions", n)
	}
}

// TestRewindsThatCannotBe expects invalid rewinds to be refused and to change nothing.
func TestRewindsThatCannotBe(t *testing.T) {
	k := enginetest.New(t)
	_, err := rewind(k, ident.Once{}, 0, nil)
	wantCode(t, err, fault.NotFound, "not_found")
	for range 3 {
		k.Post("s", enginetest.User("hello"))
	}
	_, err = rewind(k, ident.Once{}, 4, nil)
	wantCode(t, err, fault.Invalid, "out_of_range")
	_, err = rewind(k, ident.Once{}, 1, number(uint64(2)))
	wantCode(t, err, fault.Conflict, "revision_changed")
	_, err = k.TryPost(session.TurnRequest{SessionID: "s", RewindTo: number(uint32(9))}, enginetest.User("x"))
	wantCode(t, err, fault.Invalid, "out_of_range")
	// A refused turn takes nothing back.
	_, err = k.TryPost(session.TurnRequest{SessionID: "s", RewindTo: number(uint32(1))}, enginetest.Result("none", "x"))
	wantCode(t, err, fault.Invalid, "invalid_messages")
	_, err = k.Sessions.Fork(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "s", session.ForkRequest{
		AtTurn: number(uint32(4))})
	wantCode(t, err, fault.Invalid, "out_of_range")
	_, err = k.TryAsk(`{"session_id":"s","as_of":{}}`)
	wantCode(t, err, fault.Invalid, "required")
	if r, err := rewind(k, ident.Once{}, 3, number(uint64(3))); err != nil || r.Revision != 3 || r.Superseded.Turns != 0 {
		t.Errorf("nothing to take back: %+v, %v", r, err)
	}
	if s := k.GetSession("s"); s.Turns != 3 || s.Revision != 3 {
		t.Errorf("the session is %+v", s)
	}
}

// TestRewindsCostWhatLives rewinds a session as often as allowed. A window then reads as much as one of a session that
// has only the living turns. One more rewind is refused; a rewind to an earlier turn merges runs and allows more.
func TestRewindsCostWhatLives(t *testing.T) {
	raw := memstore.New()
	counting := &enginetest.Counting{Store: raw}
	k := enginetest.Open(t, counting)
	long := strings.Repeat("this is superseded soon ", 50)
	for n := range transcript.Max {
		k.Post("s", enginetest.User("kept"))
		k.Post("plain", enginetest.User("kept"))
		for range 3 {
			k.Post("s", enginetest.User(long), enginetest.Assistant(long))
		}
		if _, err := rewind(k, ident.Once{}, uint32(4*n+1), nil); err != nil {
			t.Fatal(n, err)
		}
	}
	reads := func(id string) (n int, w enginetest.Window) {
		fresh := enginetest.Open(t, counting) // a process with nothing in memory
		fresh.Ask(`{"session_id":"other"}`)
		counting.Reset()
		w = fresh.Ask(`{"session_id":%q,"pipeline":[],"budget":{"max_messages":0,"max_tokens":0}}`, id)
		return counting.Reads, w
	}
	plain, want := reads("plain")
	rewound, got := reads("s")
	if len(got.Messages) != transcript.Max || len(want.Messages) != transcript.Max || rewound > plain {
		t.Errorf("%d and %d messages in %d and %d reads", len(got.Messages), len(want.Messages), rewound, plain)
	}
	for id, turns := range map[string]int{"s": 4 * (transcript.Max - 1), "plain": transcript.Max - 1} {
		counting.Reset()
		w := k.Ask(`{"session_id":%q,"as_of":{"turn":%d},"budget":{"max_messages":1}}`, id, turns)
		if counting.Reads > 20 {
			t.Errorf("%s as of turn %d: %d messages in %d reads", id, turns, len(w.Messages), counting.Reads)
		}
	}
	k.Post("s", enginetest.User("kept"))
	k.Post("s", enginetest.User("one too many"))
	last := uint32(k.GetSession("s").LastTurn)
	_, err := rewind(k, ident.Once{}, last-1, nil)
	wantCode(t, err, fault.Conflict, "too_many_rewinds")
	if r, err := rewind(k, ident.Once{}, 9, nil); err != nil || r.Turns != 3 || r.Messages != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := rewind(k, ident.Once{}, 8, nil); err != nil {
		t.Error(err)
	}
	if r := enginetest.Verified(t, raw); len(r.Findings) > 0 {
		t.Error(r.Findings)
	}
}

// TestPlacesCountWhatLives expects a policy to see the same depths in a session with superseded turns as in one that
// never had them.
func TestPlacesCountWhatLives(t *testing.T) {
	k := enginetest.New(t)
	for n := range 30 {
		k.Post("plain", enginetest.User(fmt.Sprint("question ", n)), enginetest.Assistant("answer"))
		k.Post("s", enginetest.User(fmt.Sprint("question ", n)), enginetest.Assistant("answer"))
		k.Post("s", enginetest.User("never mind"))
		if _, err := rewind(k, ident.Once{}, uint32(2*n+1), nil); err != nil {
			t.Fatal(err)
		}
	}
	const ask = `{"session_id":%q,"explain":true,"pipeline":[{"policy":"depth-compress","config":{"depth":7}}],"budget":{"max_messages":0,"max_tokens":0}}`
	want, got := k.Ask(ask, "plain"), k.Ask(ask, "s")
	if len(got.Report) != len(want.Report) {
		t.Fatalf("%d rows, want %d", len(got.Report), len(want.Report))
	}
	for i := range got.Report {
		if got.Report[i].Action != want.Report[i].Action || got.Report[i].Turn != 2*want.Report[i].Turn-1 {
			t.Errorf("row %d: %+v, want %+v", i, got.Report[i], want.Report[i])
		}
	}
}

// TestLooksBackAreNoWindowBefore requests an earlier window between two equal ones: the second still shares everything
// with the first.
func TestLooksBackAreNoWindowBefore(t *testing.T) {
	k := enginetest.New(t)
	for n := range 5 {
		k.Post("s", enginetest.User(fmt.Sprint("question ", n)), enginetest.Assistant("answer"))
	}
	share := func(request string) float64 {
		var w struct {
			Usage struct{ Prefix struct{ Share float64 } }
		}
		if err := json.Unmarshal(k.Ask("%s", request).Raw, &w); err != nil {
			t.Fatal(err)
		}
		return w.Usage.Prefix.Share
	}
	share(`{"session_id":"s"}`)
	share(`{"session_id":"s","as_of":{"turn":1}}`)
	if got := share(`{"session_id":"s"}`); got != 1 {
		t.Errorf("the window shares %v with the one before", got)
	}
}

// TestRepairLeavesNothing sends a result again, alone and in mode repair: nothing is stored, and nothing fails.
func TestRepairLeavesNothing(t *testing.T) {
	k := enginetest.New(t)
	call := `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	result := `{"role":"tool","tool_call_id":"c1","content":"done"}`
	k.Post("s", enginetest.User("do it"), call, result)
	before, err := k.Sessions.Get(k.Context(), k.Admin, ident.DefaultProject, "s")
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Sessions.AppendTurn(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, session.TurnRequest{
		SessionID: "s", Mode: transcript.ModeRepair, Messages: enginetest.Raw(result)})
	if err != nil || len(again.Messages) != 0 || again.Revision != before.Revision || again.Turn != before.LastTurn ||
		len(again.Skipped) != 1 || again.Skipped[0].Code != "duplicate_result" {
		t.Errorf("got %+v, %v", again, err)
	}
}
