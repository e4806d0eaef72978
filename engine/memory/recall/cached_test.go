package recall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// Answers from memory are those of a server that has just started, byte for byte: whatever two servers over one store
// do in any order, and however the other one changed the index.
func TestCachedAnswersAreEqual(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r, raw := rand.New(rand.NewPCG(seed, 11)), memstore.New()
			// Each has other ids and places than those before it.
			start := func() *enginetest.Kit {
				return enginetest.Open(t, raw, func(o *engine.Options) { o.Random = rand.NewChaCha8([32]byte{byte(r.Uint32()), byte(r.Uint32())}) })
			}
			servers := []*enginetest.Kit{start(), start()}
			for range 150 {
				k := servers[r.IntN(2)]
				switch n := r.IntN(30); {
				case n < 22:
					spec := memory.Spec{Key: fmt.Sprint("k", r.IntN(200)), Content: cachedText(r, 1+r.IntN(40)), SessionID: pick(r, "", "", "s1")}
					if r.IntN(3) == 0 {
						spec.Namespace = []string{"users", pick(r, "ada", "bob")}
					}
					k.Remember(spec)
				case n < 25:
					if _, err := k.Memories.Forget(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, fmt.Sprint("k", r.IntN(200))); err != nil {
						t.Fatal(err)
					}
				case n < 29:
					k.Drain()
				default:
					damageFoldJob(k, 'm')
					k.Drain()
				}
				cold := start()
				for range 3 {
					q := cachedQuery(r)
					want := answer(t, cold, q)
					for i, k := range servers {
						if got := answer(t, k, q); got != want {
							t.Fatalf("%+v: server %d answers\n%s\na new one\n%s", q, i, got, want)
						}
					}
				}
			}
		})
	}
}

// cachedText returns words of which some are rare.
func cachedText(r *rand.Rand, words int) string {
	var out []string
	for range words {
		w := modelWords[min(r.IntN(len(modelWords)), r.IntN(len(modelWords)))]
		if r.IntN(6) == 0 {
			w = word(uint64(r.IntN(2000)))
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// cachedQuery returns a query of a few words or many, some of them mistyped.
func cachedQuery(r *rand.Rand) recall.Query {
	q := recall.Query{Query: cachedText(r, 1+r.IntN(4)), Limit: 20}
	switch r.IntN(5) {
	case 0:
		q.Query = cachedText(r, 40)
	case 1:
		w := []byte(pick(r, "mountain", "travelling", "birthday", word(uint64(r.IntN(2000)))+"tra"))
		w[1+r.IntN(len(w)-1)] = 'q'
		q.Query += " " + string(w)
	case 2:
		q.Query += " gard* -" + pick(r, "tea", "coffee")
	}
	if r.IntN(3) == 0 {
		q.Namespace = [][]string{{"users"}, {"users", "ada"}, {"nobody"}}[r.IntN(3)]
	}
	return q
}

// answer returns what a server finds, as JSON.
func answer(t *testing.T, k *enginetest.Kit, q recall.Query) string {
	t.Helper()
	got, err := k.Recall.Recall(t.Context(), k.Admin, ident.DefaultProject, q)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readBlocks counts the ranges of blocks, and the documents, that are read of a recall index.
type readBlocks struct {
	store.Store
	n atomic.Int64
}

func (c *readBlocks) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	of := func(key []byte, kind byte) bool { return len(key) > 11 && key[0] == 'v' && key[11] == kind }
	for _, rng := range q.Ranges {
		if of(rng.From, 't') {
			c.n.Add(1)
		}
	}
	for _, key := range q.Keys {
		if of(key, 'd') {
			c.n.Add(1)
		}
	}
	return c.Store.Read(ctx, tenant, q)
}

// A query asked again reads no block and no document. After a fold it reads only the blocks of the words that the fold
// changed, and after a change by another server all.
func TestQueriesReadBlocksOnce(t *testing.T) {
	raw := memstore.New()
	c := &readBlocks{Store: raw}
	k := enginetest.Open(t, c)
	for i := range 300 {
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: fmt.Sprintf("pear and plum number%d", i)})
	}
	k.Drain()
	read := func(query string) int {
		before := c.n.Load()
		if r := k.Search(recall.Query{Query: query}); len(r.Data) != 5 {
			t.Fatalf("%q finds %d", query, len(r.Data))
		}
		return int(c.n.Load() - before)
	}
	if n := read("pear plum"); n < 7 {
		t.Errorf("%d blocks and documents are read at first", n)
	}
	if n := read("pear plum"); n != 0 {
		t.Errorf("%d blocks and documents are read again", n)
	}
	if first, again := read("plim"), read("plim"); first == 0 || again != 0 {
		t.Errorf("for a mistyped word %d are read, then %d", first, again)
	}
	for i := range 100 {
		k.Remember(memory.Spec{Key: fmt.Sprint("n", i), Content: "pear alone"})
	}
	k.Drain()
	if n := read("plum"); n != 0 {
		t.Errorf("%d are read of a word that the fold did not change", n)
	}
	if n := read("pear"); n == 0 {
		t.Error("nothing is read of a word that the fold changed")
	}
	other := enginetest.Open(t, raw, func(o *engine.Options) { o.Random = rand.NewChaCha8([32]byte{9}) })
	for i := range 100 {
		other.Remember(memory.Spec{Key: fmt.Sprint("o", i), Content: "quince alone"})
	}
	other.Drain()
	if n := read("plum"); n == 0 {
		t.Error("nothing is read after another server changed the index")
	}
}

// What was forgotten is found no more, from the moment that it is answered, though its blocks are in memory.
func TestForgottenIsNotFoundFromMemory(t *testing.T) {
	k := enginetest.New(t)
	for i := range 300 {
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: fmt.Sprintf("pear number%d", i)})
	}
	k.Drain()
	if got := k.Found(recall.Query{Query: "number7"}); !slices.Equal(got, []string{"m7"}) {
		t.Fatalf("found %q", got)
	}
	k.Forget("m7")
	for range 2 {
		if got := k.Found(recall.Query{Query: "number7"}); slices.Contains(got, "m7") {
			t.Fatalf("found %q", got)
		}
		k.Drain()
	}
}
