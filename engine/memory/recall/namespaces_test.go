package recall_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// answersOf returns what queries in a namespace find, with scores, as JSON.
func answersOf(k *enginetest.Kit, namespace []string, queries []string) (out []string) {
	for _, q := range queries {
		r := k.Search(recall.Query{Query: q, Namespace: namespace, Limit: 20})
		text, err := json.Marshal(r)
		if err != nil || r.Incomplete {
			k.Fatalf("%q: %v, incomplete %t", q, err, r.Incomplete)
		}
		out = append(out, string(text))
	}
	return out
}

// What others store, in whatever language and however alike their namespaces' names are, changes no byte of an answer in
// a namespace: no score, no spelling, no order. It does not matter what is in blocks.
func TestOthersChangeNoAnswerInANamespace(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	k := enginetest.New(t)
	ada := []string{"users", "ada"}
	words := strings.Fields("harbour lantern gather violin orchard meadow thunder pocket silver window copper garden")
	text := func(words []string) string {
		var out []string
		for range 4 + r.IntN(9) {
			out = append(out, words[r.IntN(len(words))])
		}
		return strings.Join(out, " ")
	}
	for i := range 150 {
		spec := memory.Spec{Namespace: ada, Key: fmt.Sprint("m", i), Content: text(words)}
		if i%3 == 0 {
			spec.SessionID = fmt.Sprint("talk", i%2)
		}
		if i%5 == 0 {
			spec.Namespace = []string{"users", "ada", "work"}
		}
		k.Remember(spec)
	}
	queries := []string{"harbour lantern", "violins", "orchrad", "thunde*", "\"silver window\"", "copper -garden", "die harbour",
		"lanternx", "gathering meadow thunder", "secret"}
	k.Drain()
	want := answersOf(k, ada, queries)
	others := [][]string{{"users", "ada-b"}, {"users", "adam"}, {"users"}, {"users", "bob"}, nil, {"users", "bob", "ada"}, {"u"}}
	theirs := append(slices.Clone(words), strings.Fields("orchards harbours lanterns violinist thunderbolt die der und nicht secret "+
		"orchraf lanternxy gatherx")...)
	const stored = 1000
	for i := range stored {
		spec := memory.Spec{Namespace: others[r.IntN(len(others))], Key: fmt.Sprint("m", i), Content: text(theirs)}
		if i%3 == 0 {
			spec.SessionID = fmt.Sprint("talk", i%2)
		}
		k.Remember(spec)
		if i%250 == 100 {
			k.Drain()
		}
		if i%250 == 0 {
			if got := answersOf(k, ada, queries); !slices.Equal(got, want) {
				t.Fatalf("after %d texts of others:\n%s\nwant\n%s", i+1, got, want)
			}
		}
	}
	k.Drain()
	if got := answersOf(k, ada, queries); !slices.Equal(got, want) {
		t.Fatalf("after all texts of others:\n%s\nwant\n%s", got, want)
	}
	k.Sound()
}

// A namespace whose memories are all forgotten leaves no record that counts it.
func TestForgottenNamespaceIsNotCounted(t *testing.T) {
	k := enginetest.New(t)
	for i := range 100 {
		k.Remember(memory.Spec{Namespace: []string{"users", "ada"}, Key: fmt.Sprint("m", i), Content: fmt.Sprint("a tandem ", i)})
	}
	k.Drain()
	counted := func() (n int) {
		for _, it := range k.Everything(ident.DefaultTenant) {
			if records.RecallNamespace.Is(it.Key) {
				n++
			}
		}
		return n
	}
	if counted() != 1 {
		t.Fatalf("%d namespaces are counted, want 1", counted())
	}
	for i := range 100 {
		k.Forget(memory.ID([]string{"users", "ada"}, fmt.Sprint("m", i)))
	}
	k.Drain()
	if counted() != 0 {
		t.Errorf("%d namespaces are counted after all was forgotten", counted())
	}
	k.Sound()
}
