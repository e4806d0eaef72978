package session_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
)

var written = time.Date(2025, 3, 1, 9, 0, 0, 0, time.UTC)

// conversation returns the turns of a file in which each word is a message. A word that begins with a question mark is a
// person's and begins a turn. The records of a message are its letters: "ab" is one message made of the records a and b.
func conversation(words string) (turns []session.FileTurn) {
	for i, word := range strings.Fields(words) {
		role, ids := "assistant", []string{}
		if name, asks := strings.CutPrefix(word, "?"); asks || turns == nil {
			turns = append(turns, session.FileTurn{})
			role, word = "user", name
		}
		for _, letter := range word {
			ids = append(ids, string(letter))
		}
		t := &turns[len(turns)-1]
		t.Messages = append(t.Messages, session.FileMessage{Format: "openai.chat", SourceIDs: ids,
			CreatedAt: written.Add(time.Duration(i) * time.Minute), Message: json.RawMessage(fmt.Sprintf(`{"role":%q,"content":%q}`, role, word))})
	}
	return turns
}

func merge(k *enginetest.Kit, words string, edit func(*session.MergeRequest)) session.Merged {
	k.Helper()
	req := session.MergeRequest{Session: session.Spec{ID: "c"}, Turns: conversation(words)}
	if edit != nil {
		edit(&req)
	}
	out, err := k.Sessions.Merge(k.Context(), k.Admin, ident.DefaultProject, req)
	if err != nil {
		k.Fatal(err)
	}
	return out
}

// words returns the living messages of a session as conversation takes them.
func words(k *enginetest.Kit, id string) string {
	k.Helper()
	list, err := k.Sessions.ListMessages(k.Context(), k.Admin, ident.DefaultProject, id, records.Page{Limit: 200}, session.MessageOrder{})
	if err != nil {
		k.Fatal(err)
	}
	var out []string
	turn := uint32(0)
	for _, m := range list.Data {
		if strings.Join(m.SourceIDs, "") != m.Content {
			k.Errorf("message %q has the source ids %q", m.Content, m.SourceIDs)
		}
		if m.Turn != turn {
			m.Content, turn = "?"+m.Content, m.Turn
		}
		out = append(out, m.Content)
	}
	return strings.Join(out, " ")
}

// TestMerge merges conversations one after the other into one session and checks what each adds and where.
func TestMerge(t *testing.T) {
	steps := []struct {
		merge, want     string
		turns, messages int
		id              string
	}{
		{"?a b", "?a b", 1, 2, "c"},
		{"?a b", "?a b", 0, 0, "c"},                       // again
		{"?a b c ?d", "?a b c ?d", 1, 2, "c"},             // the open turn goes on, another begins
		{"?a b", "?a b c ?d", 0, 0, "c"},                  // an older copy
		{"?a b c ?d ef", "?a b c ?d ef", 0, 1, "c"},       //
		{"?a b c ?d efg", "?a b c ?d efg", 1, 2, "c"},     // a message has grown, so its turn is stored again
		{"?a b c ?h i", "?a b c ?h i", 1, 2, "c~2"},       // an edited question
		{"?a b c ?h i ?j", "?a b c ?h i ?j", 1, 1, "c~2"}, // which goes on
		{"?a b c ?d efx", "?a b c ?d efx", 0, 1, "c~3"},   // only whole messages are shared
		{"?z", "?z", 1, 1, "c~4"},                         // nothing is shared
		{"?d efg ?k", "?a b c ?d efg ?k", 1, 1, "c"},      // the end of a file whose beginning is gone
	}
	k := enginetest.New(t)
	for _, s := range steps {
		dry := merge(k, s.merge, func(r *session.MergeRequest) { r.DryRun = true })
		got := merge(k, s.merge, nil)
		if got.Turns != s.turns || got.Messages != s.messages || got.SessionID != s.id {
			t.Errorf("%q gives %+v, want %d turns and %d messages in %s", s.merge, got, s.turns, s.messages, s.id)
		}
		if dry.Turns != got.Turns || dry.Messages != got.Messages || dry.SessionID != got.SessionID {
			t.Errorf("%q gives %+v, and a dry run said %+v", s.merge, got, dry)
		}
		if now := words(k, s.id); now != s.want {
			t.Errorf("after %q the session %s has %q, want %q", s.merge, s.id, now, s.want)
		}
	}
	k.Sound()
}

// TestMergeCopy merges a copy of a conversation that went on under another id, twice and longer.
func TestMergeCopy(t *testing.T) {
	k := enginetest.New(t)
	merge(k, "?a b ?c d ?e f", nil)
	fork := func(r *session.MergeRequest) { r.Session.ID, r.ForkOf, r.After = "other", "c", "d" }
	for _, s := range []struct {
		more string
		adds int
	}{{"?x y", 2}, {"?x y", 0}, {"?x y z", 1}} {
		if got := merge(k, s.more, fork); got.Messages != s.adds || got.SessionID != "other" {
			t.Errorf("%q gives %+v, want %d messages", s.more, got, s.adds)
		}
	}
	if got := words(k, "other"); got != "?a b ?c d ?x y z" {
		t.Errorf("the copy has %q", got)
	}
	_, err := k.Sessions.Merge(k.Context(), k.Admin, ident.DefaultProject, session.MergeRequest{
		Session: session.Spec{ID: "third"}, ForkOf: "c", After: "nowhere", Turns: conversation("?q")})
	wantCode(t, err, fault.NotFound, "not_found")
	k.Sound()
}

// TestMergeRemoved merges another course of a conversation from which a message was removed.
func TestMergeRemoved(t *testing.T) {
	k := enginetest.New(t)
	merge(k, "?a b c ?d e ?f g", nil)
	f, err := k.Sessions.Export(k.Context(), k.Admin, ident.DefaultProject, "c")
	if err != nil {
		t.Fatal(err)
	}
	f.Turns[0].Messages[1].Removed = true
	f.Session.ID = "d"
	if _, err := k.Sessions.Import(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, f); err != nil {
		t.Fatal(err)
	}
	if got := words(k, "d"); got != "?a c ?d e ?f g" {
		t.Fatalf("the session has %q", got)
	}
	got := merge(k, "?a c ?d e ?x y", func(r *session.MergeRequest) { r.Session.ID = "d" })
	if got.SessionID != "d~2" || got.Messages != 2 || words(k, "d~2") != "?a c ?d e ?x y" {
		t.Errorf("%+v: %q", got, words(k, "d~2"))
	}
	k.Sound()
}

// TestMergeResults merges two results that are one message of the file and two here, again, and with another answer.
func TestMergeResults(t *testing.T) {
	k := enginetest.New(t)
	turns := func(answer string) []session.FileTurn {
		t := session.FileTurn{}
		for i, raw := range []string{`{"role":"user","content":"Read both."}`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"read","input":{}},{"type":"tool_use","id":"b","name":"read","input":{}}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"},{"type":"tool_result","tool_use_id":"b","content":"2"},{"type":"text","text":"Both."}]}`,
			`{"role":"assistant","content":[{"type":"text","text":"` + answer + `"}]}`} {
			m := session.FileMessage{Format: "anthropic.messages", SourceIDs: []string{fmt.Sprint("row-", i)}, Message: json.RawMessage(raw)}
			if i == 3 {
				m.SourceIDs[0] = answer
			}
			t.Messages = append(t.Messages, m)
		}
		return []session.FileTurn{t}
	}
	for i, want := range []string{"c 4", "c 0", "c~2 1", "c~2 0"} {
		got := merge(k, "", func(r *session.MergeRequest) { r.Turns = turns([]string{"Done.", "Done.", "Two.", "Two."}[i]) })
		if fmt.Sprint(got.SessionID, " ", got.Messages) != want {
			t.Errorf("merge %d gives %+v, want %s", i, got, want)
		}
	}
	k.Lives("c~2", "Read both.", "", "1", "2", "Both.", "Two.")
	k.Sound()
}

// TestMergeTimes checks that a merged session has the times of its messages, and its metadata, also in an export.
func TestMergeTimes(t *testing.T) {
	k := enginetest.New(t)
	about := ident.Metadata{"model": json.RawMessage(`"m-1"`)}
	with := func(r *session.MergeRequest) { r.Session.Metadata = about }
	merge(k, "?a b", with)
	merge(k, "?a b ?c", with)
	s := k.GetSession("c")
	if !s.CreatedAt.Equal(written) || !s.LastActivityAt.Equal(written.Add(2*time.Minute)) {
		t.Errorf("the session is from %v to %v", s.CreatedAt, s.LastActivityAt)
	}
	if s.Origin != session.OriginImport || string(s.Metadata["model"]) != `"m-1"` {
		t.Errorf("the session is %+v", s)
	}
	f, err := k.Sessions.Export(k.Context(), k.Admin, ident.DefaultProject, "c")
	if err != nil {
		t.Fatal(err)
	}
	f.Session.ID = "again"
	if _, err := k.Sessions.Import(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, f); err != nil {
		t.Fatal(err)
	}
	if got := words(k, "again"); got != "?a b ?c" {
		t.Errorf("the copy has %q", got)
	}
	if again := k.GetSession("again"); again.Origin != s.Origin || len(again.Metadata) != 1 {
		t.Errorf("the copy is %+v", again)
	}
}

// TestMergeWrittenOn checks that messages which were added here are not mixed with later ones of the file.
func TestMergeWrittenOn(t *testing.T) {
	k := enginetest.New(t)
	merge(k, "?a b", nil)
	k.Post("c", enginetest.User("and here?"))
	if got := merge(k, "?a b ?c", nil); got.SessionID != "c~2" || got.Messages != 1 {
		t.Errorf("got %+v", got)
	}
	k.Lives("c", "a", "b", "and here?")
	k.Sound()
}

// TestMergeModel merges random branches of random trees, each as a program writes them: it goes on, is cut short, or
// leaves the path somewhere. Each branch must be whole in one session, and merging it again must add nothing.
func TestMergeModel(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		k := enginetest.New(t)
		next, path := '一', []string{}
		for range 12 {
			path = path[:rng.IntN(len(path)+1)]
			for range 1 + rng.IntN(4) {
				word := string(next)
				next++
				if rng.IntN(3) == 0 || len(path) == 0 {
					word = "?" + word
				}
				path = append(path, word)
			}
			text := strings.Join(path, " ")
			got := merge(k, text, nil)
			if now := words(k, got.SessionID); now != text {
				t.Fatalf("seed %d: %q is stored as %q", seed, text, now)
			}
			cut := strings.Join(path[:1+rng.IntN(len(path))], " ")
			for _, again := range []string{text, cut} {
				if got := merge(k, again, nil); got.Messages != 0 || got.Made {
					t.Fatalf("seed %d: %q again gives %+v", seed, again, got)
				}
			}
		}
		if ids := k.SessionIDs(); !slices.Contains(ids, "c") {
			t.Errorf("seed %d: the sessions are %q", seed, ids)
		}
		k.Sound()
	}
}
