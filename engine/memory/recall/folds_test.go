package recall_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
)

// A fold continues from the blocks that the previous one left. Whatever happened in between, and wherever the documents
// are, every memory is found by its word and the whole store verifies.
func TestFoldsGoOnFromOneAnother(t *testing.T) {
	k := enginetest.New(t)
	there := map[string]string{} // a word of each existing memory, by key
	put := func(key, session string, round int) {
		word := fmt.Sprintf("word%dx%s", round, key)
		k.Remember(memory.Spec{Key: key, SessionID: session, Content: "common " + word})
		there[key] = word
	}
	check := func(what string) {
		t.Helper()
		k.Drain()
		wantWhole(k)
		for key, word := range there {
			if got := k.Found(recall.Query{Query: word}); len(got) == 0 || got[0] != key {
				t.Fatalf("%s: %q finds %q", what, word, got)
			}
		}
		if r := k.Search(recall.Query{Query: "common", Limit: 50}); r.Incomplete || len(r.Data) != 50 {
			t.Fatalf("%s: the common word finds %d, incomplete: %v", what, len(r.Data), r.Incomplete)
		}
	}
	between := []struct {
		what string
		do   func()
	}{
		{"nothing between", func() {}},
		{"a session's memories between", func() {
			for i := range 150 {
				put(fmt.Sprint("s", i), []string{"one", "two"}[i%2], 0)
			}
		}},
		{"forgotten ones between", func() {
			for i := range 40 {
				k.Forget(fmt.Sprint("m0n", i))
				delete(there, fmt.Sprint("m0n", i))
			}
		}},
		{"overwritten ones between", func() {
			for i := range 100 {
				put(fmt.Sprint("m1n", i), "", 90)
			}
		}},
		{"a lost index between", func() {
			damageIndex(k, "mt", true)
			now := k.Clock()
			k = enginetest.Open(t, k.Store) // which has no blocks in memory
			k.Now = now
			if !rebuild(k, recall.Query{Query: "common"}) {
				t.Error("the index was not built again")
			}
		}},
	}
	for round, b := range between {
		for again := range 2 {
			for i := range 300 {
				put(fmt.Sprintf("m%dn%d", round, 300*again+i), "", round)
			}
			for range 40 { // with the same words in another space, which is folded between the folds of this one
				k.Post("talk", fmt.Sprintf(`{"role":"user","content":"common and round%d"}`, round))
			}
			k.Advance(time.Minute)
			check(b.what)
		}
		b.do()
		check(b.what)
	}
}
