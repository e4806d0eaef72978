package board_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
)

// The sender of an entry is its key's; another source is kept as unverified. Commands are for the lead, people and the
// agents that the board names, and an agent makes itself none of these.
func TestSenders(t *testing.T) {
	k := enginetest.New(t)
	k.Member("b", "boss", board.AgentSpec{Lead: true})
	k.Member("b", "worker", board.AgentSpec{DisplayName: "Work bot"})
	k.Member("b", "other", board.AgentSpec{})
	as := func(agent string) ident.Caller {
		c := k.Admin
		c.Agent, c.Role = agent, ident.RoleAgent
		return c
	}
	post := func(agent, content, source string) (board.Entry, error) {
		chat := true
		p := board.Post{Content: content, IsChat: &chat}
		if source != "" {
			p.Source = &source
		}
		return k.Boards.PostEntry(t.Context(), as(agent), ident.Once{}, "b", p)
	}
	for _, c := range []struct {
		agent, source, shown string
		unverified           bool
	}{
		{"worker", "", "Work bot", false},
		{"worker", "Work bot", "Work bot", false},
		{"worker", "worker", "worker", false},
		{"worker", "lead", "lead", true},
		{"boss", "worker", "worker", true},
		{"", "boss", "boss", true},
	} {
		e, err := post(c.agent, "hello @other", c.source)
		if err != nil || *e.Source != c.shown || e.Unverified != c.unverified {
			t.Errorf("%+v: source %v, unverified %v: %v", c, e.Source, e.Unverified, err)
		}
		items := k.Inbox("b", "other").Items
		if n := items[len(items)-1]; n.From != c.shown || n.Unverified != c.unverified {
			t.Errorf("%+v is told as from %q, unverified %v", c, n.From, n.Unverified)
		}
	}
	before := len(k.Inbox("b", "other").Items)
	for _, command := range []string{"/pause", " /Resume "} {
		_, err := post("worker", command, "lead")
		enginetest.RefusedWith(t, err, fault.Forbidden, "command_refused")
	}
	if after := len(k.Inbox("b", "other").Items); after != before {
		t.Errorf("a refused command raised %d notifications", after-before)
	}
	for _, agent := range []string{"boss", ""} {
		if _, err := post(agent, "/pause", ""); err != nil {
			t.Errorf("%q: %v", agent, err)
		}
	}
	_, _, err := k.Boards.Put(t.Context(), as("worker"), "b", board.Spec{Commanders: []string{"worker"}})
	enginetest.RefusedWith(t, err, fault.Forbidden, "command_refused")
	_, _, err = k.Boards.PutAgent(t.Context(), as("worker"), "b", "worker", board.AgentSpec{Lead: true})
	enginetest.RefusedWith(t, err, fault.Forbidden, "command_refused")
	out, _, err := k.Boards.Put(t.Context(), k.Admin, "b", board.Spec{Commanders: []string{"worker"}})
	if err != nil || len(out.Commanders) != 1 {
		t.Fatal(out, err)
	}
	if _, err := post("worker", "/resume", ""); err != nil {
		t.Error(err)
	}
	k.Sound()
}
