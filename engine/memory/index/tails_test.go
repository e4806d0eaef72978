package index_test

import (
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// The tails left by a fold can be taken once, and only in the state in which they were left.
func TestTails(t *testing.T) {
	var k index.Kept
	block := store.Item{Key: []byte("block"), Value: []byte("postings")}
	left := map[string]index.Tail{"term": {Stream: records.Stream{Number: 7}, Item: block}, "new": {Stream: records.Stream{Number: 7}}}
	finds := func(state string) bool {
		_, none := k.Take(state).Find("term", records.Stream{Number: 8})
		k.Leave(k.Take(state), "1", left)
		took := k.Take(state)
		got, known := took.Find("term", records.Stream{Number: 7})
		if _, other := took.Find("term", records.Stream{Number: 8}); other || none {
			t.Error("a block of another stream is known")
		}
		if empty, isKnown := took.Find("new", records.Stream{Number: 7}); isKnown != known || empty.Key != nil {
			t.Error("that there is no block is to be known like a block")
		}
		if _, again := k.Take(state).Find("term", records.Stream{Number: 7}); again {
			t.Error("what was left is taken twice")
		}
		return known && string(got.Value) == "postings"
	}
	if !finds("1") || finds("2") {
		t.Error("the tails of a state are to be found in this state, and in no other")
	}
}

// For an index with very many terms, not all are cached.
func TestTailsAreBounded(t *testing.T) {
	var k index.Kept
	const many = 100_000
	block := store.Item{Value: make([]byte, 1000)}
	for i := range many {
		took := k.Take("s")
		k.Leave(took, "s", map[string]index.Tail{string(rune('\U00010000' + i)): {Item: block}})
	}
	took, known := k.Take("s"), 0
	for i := range many {
		if _, ok := took.Find(string(rune('\U00010000'+i)), records.Stream{}); ok {
			known++
		}
	}
	if known == 0 || known > 64<<20/1000 {
		t.Errorf("%d of %d are remembered", known, many)
	}
	last := string(rune('\U00010000' + many - 1))
	k.Leave(took, "s", nil)
	k.Rest()
	if _, ok := k.Take("s").Find(last, records.Stream{}); ok {
		t.Error("many are remembered at rest")
	}
	k.Leave(k.Take("s"), "s", map[string]index.Tail{last: {Item: block}})
	k.Rest()
	if _, ok := k.Take("s").Find(last, records.Stream{}); !ok {
		t.Error("one is not remembered at rest")
	}
}
