package memory_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
)

// Why shows the sentence that each version is from, as long as its message is there. Another session with the same id
// is not the source.
func TestWhy(t *testing.T) {
	k := enginetest.New(t)
	talk(k)
	k.Remember(memory.Spec{Key: "nuts", Content: "Guessed"})
	k.Remember(memory.Spec{Key: "nuts", Content: "I am allergic to nuts", Sources: []memory.Source{{SessionID: "s", Seq: 1}, {SessionID: "s", Seq: 2}}})
	why := func() memory.Why {
		t.Helper()
		w, err := k.Memories.Why(k.Context(), k.Admin, ident.DefaultProject, "nuts")
		if err != nil || len(w.Versions) != 2 || w.Versions[0].Version != 2 || w.Versions[0].Trust != "user" ||
			w.Versions[1].Trust != "model" || len(w.Versions[0].Quotes) != 2 || len(w.Versions[1].Quotes) != 0 {
			t.Fatalf("%+v, %v", w, err)
		}
		return w
	}
	q := why().Versions[0].Quotes
	if q[0].Text != "I am allergic to nuts." || q[0].Gone || q[1].Text != "You are fond of jazz." || q[1].Gone {
		t.Errorf("the quotes are %+v", q)
	}
	if err := k.Sessions.Delete(k.Context(), k.Admin, ident.DefaultProject, "s"); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	for _, again := range []bool{false, true} {
		if again {
			talk(k)
		}
		for _, q := range why().Versions[0].Quotes {
			if !q.Gone || q.Text != "" {
				t.Errorf("made again: %t: the deleted source says %+v", again, q)
			}
		}
	}
	if _, err := k.Memories.Why(k.Context(), k.Admin, ident.DefaultProject, "no"); code(err) != "not_found" {
		t.Errorf("no memory: %v", err)
	}
}
