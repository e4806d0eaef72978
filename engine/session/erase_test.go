package session_test

import (
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// TestEraseLongSessions erases more messages than one commit takes, in several runs with living turns between them.
func TestEraseLongSessions(t *testing.T) {
	k := enginetest.New(t)
	say := func(n int) {
		var list []string
		for i := range n {
			list = append(list, enginetest.User(fmt.Sprint("message ", i)))
		}
		k.Post("s", list...)
	}
	back := func(turn uint32) {
		t.Helper()
		if _, err := k.Sessions.Rewind(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "s",
			session.RewindRequest{ToTurn: &turn}); err != nil {
			t.Fatal(err)
		}
	}
	say(2)
	for range 3 {
		say(1500)
	}
	back(1)
	say(3)
	say(900)
	back(5)
	say(1)
	before := k.GetSession("s")
	got, err := k.Sessions.Erase(t.Context(), k.Admin, ident.DefaultProject, "s")
	if err != nil || got.Messages != 5400 {
		t.Fatalf("%+v, %v", got, err)
	}
	k.Drain()
	k.Sound()
	if after := k.GetSession("s"); after.Messages != before.Messages || after.Messages != 6 || after.Tokens != before.Tokens {
		t.Errorf("%+v became %+v", before, after)
	}
	say(2)
	k.Sound()
	_, err = k.Sessions.Erase(t.Context(), k.Admin, ident.DefaultProject, "no")
	enginetest.WantKind(t, err, fault.NotFound)
}
