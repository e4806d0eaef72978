package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/message/align"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// has reports whether recall finds a message with a word.
func (c *client) has(word string) bool {
	c.Helper()
	hits := c.Found(recall.Query{Query: word, Scope: "transcript", Limit: 50})
	return slices.ContainsFunc(hits, func(text string) bool { return slices.Contains(strings.Fields(text), word) })
}

// TestEditsInPlace has a client that changes messages again and again. Each keeps its place, recall finds only what it
// says now, before and after the index has caught up, and every decision replays as it was.
func TestEditsInPlace(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	r := rand.New(rand.NewPCG(1, 4))
	words, next := map[int]string{}, 0
	word := func() string {
		next++
		return fmt.Sprintf("w%dx%d", next, r.IntN(1e6))
	}
	text := func(i int) string {
		return fmt.Sprintf("message %d tells of the harvest of %s in the valley", i, words[i])
	}
	entry := func(i int) string {
		if i%2 == 0 {
			return user(text(i))
		}
		return assistant(text(i))
	}
	c.has("anything") // From now on messages are indexed.
	var decisions []string
	var gone []string
	changed := map[int]int{}
	for range 40 {
		if n := len(c.history); n > 4 && r.IntN(3) > 0 {
			c.history = slices.Clone(c.history)
			for range 1 + r.IntN(2) {
				i := r.IntN(n - 1)
				if changed[i]++; changed[i] > 2 && i < align.OwnBefore {
					continue // It would count as the client's own text.
				}
				gone = append(gone, words[i])
				words[i] = word()
				c.history[i] = entry(i)
			}
		}
		n := len(c.history)
		words[n], words[n+1] = word(), word()
		_, s := c.exchange(entry(n+1), entry(n))
		if s.Session != "s" || int(s.Turn) != n/2+1 {
			t.Fatalf("%d: %+v", n, s)
		}
		if r.IntN(4) == 0 {
			c.Drain()
		}
		decisions = append(decisions, c.Ask(`{"session_id":"s"}`).DecisionID)
		c.has(words[n])
		if len(gone) > 0 && c.has(gone[r.IntN(len(gone))]) {
			t.Fatalf("one of %q is found", gone)
		}
		if i := r.IntN(n + 1); !c.has(words[i]) {
			t.Fatalf("%q of message %d is not found", words[i], i)
		}
	}
	c.Drain()
	for i := range c.history {
		if !c.has(words[i]) {
			t.Errorf("%q of message %d is not found", words[i], i)
		}
	}
	for _, w := range gone {
		if c.has(w) {
			t.Errorf("%q is found", w)
		}
	}
	want := make([]string, len(c.history))
	for i := range want {
		want[i] = text(i)
	}
	c.Lives("s", want...)
	for _, id := range decisions {
		c.Replay(id)
	}
	c.Sound()
	if len(gone) < 20 {
		t.Errorf("only %d messages were changed", len(gone))
	}
}

// TestEditsReachCopies edits a message that a fork holds a copy of. Both say the new version, in one commit. Without the
// record of a change the decisions before it cannot be replayed.
func TestEditsReachCopies(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	c.has("anything")
	c.exchange(assistant("I shall keep the key in mind for you."), user("Keep my key hunter2 in mind"))
	c.exchange(assistant("The river Po flows through the city of Turin."), user("Which river flows through Turin?"))
	before := c.Ask(`{"session_id":"s"}`)
	if _, err := c.Sessions.Fork(c.Context(), c.Admin, ident.Once{}, ident.DefaultProject, "s", session.ForkRequest{As: "s~1"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Sessions.NoteFork(c.Context(), c.Admin, ident.DefaultProject, "s", nil, 1); err != nil {
		t.Fatal(err)
	}
	c.history[0] = user("Keep my key [removed] in mind")
	x, s := c.exchange(assistant("That is the Arno."), user("And through Florence?"))
	if x.Match.Case != align.Edit || s.Session != "s" || s.Turn != 3 {
		t.Fatalf("%+v %+v", x.Match, s)
	}
	kept := []string{"Keep my key [removed] in mind", "I shall keep the key in mind for you.", "Which river flows through Turin?",
		"The river Po flows through the city of Turin."}
	c.Lives("s~1", kept...)
	c.Lives("s", append(kept, "And through Florence?", "That is the Arno.")...)
	for range 2 {
		if c.has("hunter2") {
			t.Error("the former version is found")
		}
		c.Drain()
	}
	c.Replay(before.DecisionID)
	c.Sound()
	for _, it := range c.Everything(c.Admin.Tenant) {
		if records.Change.Is(it.Key) {
			if err := c.Store.Commit(c.Context(), c.Admin.Tenant, deleting(it.Key)); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := c.Windows.Replay(c.Context(), c.Admin, ident.DefaultProject, before.DecisionID, nil)
	enginetest.RefusedWith(t, err, fault.Gone, "session_purged")
}

func deleting(key []byte) store.Batch { return store.Batch{Delete: [][]byte{key}} }

// TestLongEdits replaces a long message by a short one, and that one by another long one. Both were more than one record.
func TestLongEdits(t *testing.T) {
	c := &client{Kit: enginetest.New(t), session: "s"}
	long := func(word string) string { return "Please read this: " + strings.Repeat(word+" ", 60_000) }
	c.exchange(assistant("I have read all of it, and it is long."), user(long("apple")))
	ask := func() string { return c.Ask(`{"session_id":"s","budget":{"max_tokens":200000}}`).DecisionID }
	decisions := []string{ask()}
	for n, text := range []string{"Please read this: apple apple", long("pear")} {
		c.history[0] = user(text)
		if x, s := c.exchange(assistant(fmt.Sprint("With pleasure, what is next? ", n)), user(fmt.Sprint("Go on ", n))); x.Match.Case != align.Edit || s.Turn == 0 {
			t.Fatalf("%+v %+v", x.Match, s)
		}
		c.Sound()
		decisions = append(decisions, ask())
	}
	for _, id := range decisions {
		c.Replay(id)
	}
	c.Lives("s", long("pear"), "I have read all of it, and it is long.", "Go on 0", "With pleasure, what is next? 0", "Go on 1",
		"With pleasure, what is next? 1")
}
