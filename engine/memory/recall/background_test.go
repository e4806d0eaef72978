package recall_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

// Messages of background sessions are found only on request, by words and as the most recent, indexed or not, and a hit
// says that it is one. However many there are, they displace no message of a chat.
func TestBackgroundSessionsAreNotRecalled(t *testing.T) {
	k := enginetest.New(t)
	for i := range 8 {
		spec := session.Spec{ID: fmt.Sprint("tick", i), Kind: session.KindBackground}
		if _, err := k.Sessions.Create(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, spec); err != nil {
			t.Fatal(err)
		}
	}
	k.Post("chat", enginetest.User("is the disk of the harbour server full?"))
	for i := range 8 {
		k.Post(fmt.Sprint("tick", i), enginetest.User(fmt.Sprint("harbour server disk full harbour server disk full, tick ", i)))
	}
	for _, how := range []string{"fresh", "indexed"} {
		for _, query := range []string{"harbour disk", "*"} {
			find := func(q recall.Query) (sessions []string) {
				q.Query, q.Limit = query, 5
				for _, h := range k.Search(q).Data {
					sessions = append(sessions, h.SessionID)
					if h.Background != (h.SessionID != "chat") {
						t.Errorf("%s, %q: %s says %t", how, query, h.SessionID, h.Background)
					}
				}
				return sessions
			}
			for _, scope := range []string{"transcript", "both"} {
				if got := find(recall.Query{Scope: scope}); !slices.Equal(got, []string{"chat"}) {
					t.Errorf("%s, %q in %s: %v", how, query, scope, got)
				}
				if got := find(recall.Query{Scope: scope, Background: true}); len(got) != 5 || !slices.ContainsFunc(got,
					func(s string) bool { return s != "chat" }) {
					t.Errorf("%s, %q in %s with background sessions: %v", how, query, scope, got)
				}
			}
			got := find(recall.Query{Scope: "transcript", SessionID: "tick3"})
			if !slices.Equal(got, []string{"tick3"}) {
				t.Errorf("%s, %q of one session: %v", how, query, got)
			}
		}
		k.Drain()
	}
}
