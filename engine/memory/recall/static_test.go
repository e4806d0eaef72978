package recall_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/model2vec"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/testdata/staticmodel"
)

const static = `{"embedding_model":"static"}`

// embeddingStatic returns an engine with the static model in a folder.
func embeddingStatic(t testing.TB, raw store.Store, folder string, set ...func(*engine.Options)) *enginetest.Kit {
	t.Helper()
	m, err := model2vec.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return enginetest.Open(t, raw, append([]func(*engine.Options){func(o *engine.Options) {
		o.Static.Model = m
	}}, set...)...)
}

var (
	vehicles = []string{"tandem", "bicycle", "saddles", "wheels"}
	cooking  = []string{"cake", "oven", "apples", "bake"}
	coast    = []string{"tides", "noon", "harbour", "sea"}
)

// A static model finds what has a similar meaning, in process: no provider is needed, and usage counts nothing. Its
// vectors are for memories and messages, and the parts of each score add up.
func TestStaticVectorsFindWhatWordsDoNot(t *testing.T) {
	k := embeddingStatic(t, memstore.New(), staticmodel.Write(t, vehicles, cooking, coast))
	k.SetIn("default", static)
	for i, text := range []string{"Our tandem has two saddles", "A cake with apples", "Tides are low at noon", "Zyx wvu"} {
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: text})
	}
	k.Post("s", `{"role":"user","content":"The wheels turn"}`)
	k.Search(recall.Query{Query: "the first question has the transcript indexed", Scope: "transcript"})
	k.Drain()
	if n := vectors(k); n != 8 {
		t.Errorf("%d records of vectors, want two for each text with a known word", n)
	}
	for query, want := range map[string]string{"bicycle": "m0", "oven": "m1", "sea harbour": "m2"} {
		r := k.Search(recall.Query{Query: query, Limit: 3})
		if len(r.Data) == 0 || r.Data[0].Key != want || r.Vectors != "used" || r.Data[0].Why.Vector <= 0 {
			t.Errorf("%s: %+v", query, r)
		}
	}
	if r := k.Search(recall.Query{Query: "bicycle", Scope: "transcript"}); len(r.Data) != 1 || r.Vectors != "used" {
		t.Errorf("messages: %+v", r)
	}
	if r := k.Search(recall.Query{Query: "zyx"}); len(r.Data) != 1 || r.Vectors != "no_known_word" {
		t.Errorf("a query without a known word: %+v", r)
	}
	u, err := k.Tenants.Usage(t.Context(), k.Admin)
	if err != nil || u.Embeddings.Calls != 0 {
		t.Errorf("usage %+v, %v", u.Embeddings, err)
	}
	k.Sound()
}

// Without the operator's model the setting is refused. Where it was set before, answers are by words and say why, and
// the vectors stay for the day when the model is back.
func TestStaticModelMissing(t *testing.T) {
	raw := memstore.New()
	without := enginetest.Open(t, raw)
	_, err := without.Projects.PatchSettings(t.Context(), without.Admin, "default", []byte(static))
	if known, ok := errors.AsType[*fault.Error](err); !ok || known.Code != "static_model_missing" {
		t.Errorf("set without a model: %v", err)
	}
	folder := staticmodel.Write(t, vehicles)
	k := embeddingStatic(t, raw, folder)
	k.SetIn("default", static)
	k.Keep("m", "Our tandem has two saddles")
	k.Drain()
	without = enginetest.Open(t, raw)
	without.Keep("n", "Wheels of a bicycle")
	without.Drain()
	if r := without.Search(recall.Query{Query: "tandem"}); len(r.Data) != 1 || r.Vectors != "static_model_missing" {
		t.Errorf("without the model: %+v", r)
	}
	if n := vectors(without); n != 2 {
		t.Errorf("%d records of vectors without the model", n)
	}
	k = embeddingStatic(t, raw, folder)
	k.Keep("o", "A bicycle")
	k.Drain()
	if n := vectors(k); n != 6 {
		t.Errorf("%d records of vectors once the model is back", n)
	}
	k.Sound()
}

// Two servers with different static models do not remake each other's vectors: the second answers by words and says
// so, until its operator has it adopt the index.
func TestStaticModelsDiffer(t *testing.T) {
	raw := memstore.New()
	shared := func(o *engine.Options) { o.Alone = false }
	first := embeddingStatic(t, raw, staticmodel.Write(t, vehicles, cooking), shared)
	first.SetIn("default", static)
	first.Keep("m", "Our tandem has two saddles")
	first.Drain()
	second := staticmodel.Write(t, vehicles, coast)
	k := embeddingStatic(t, raw, second, shared)
	k.Keep("n", "Tides are low at noon")
	k.Drain()
	if r := k.Search(recall.Query{Query: "bicycle"}); len(r.Data) != 0 || r.Vectors != "static_model_differs" {
		t.Errorf("by another model: %+v", r)
	}
	if r := first.Search(recall.Query{Query: "bicycle"}); len(r.Data) != 1 || r.Vectors != "used" {
		t.Errorf("by the first model: %+v", r)
	}
	k = embeddingStatic(t, raw, second, shared, func(o *engine.Options) { o.Static.Adopt = true })
	k.Keep("o", "The sea")
	k.Drain()
	if r := k.Search(recall.Query{Query: "harbour"}); len(r.Data) != 3 || r.Data[2].Key != "m" || r.Vectors != "used" {
		t.Errorf("once it is adopted: %+v", r)
	}
	if r := first.Search(recall.Query{Query: "bicycle"}); r.Vectors != "static_model_differs" {
		t.Errorf("by the first model: %+v", r)
	}
	k.Sound()
}

// A word finds short texts with the space's own words of a similar meaning, and why names them. What is quoted, a long
// text, and a text that holds the word itself are not found by others.
func TestSimilarWords(t *testing.T) {
	music := []string{"instrument", "guitar", "piano", "violin"}
	k := embeddingStatic(t, memstore.New(), staticmodel.Write(t, music, cooking, coast))
	k.SetIn("default", static)
	long := "a guitar" + strings.Repeat(" and zyx", 2)
	for i := range 90 {
		long += fmt.Sprint(" w", i)
	}
	for key, text := range map[string]string{"short": "A guitar is in the attic", "long": long, "own": "An instrument for the guitar",
		"other": "A cake from the oven"} {
		k.Keep(key, text)
	}
	for i := range 30 {
		k.Keep(fmt.Sprint("filler", i), fmt.Sprint("Zyx number ", i))
	}
	k.Drain()
	terms := func(query, key string) (out []recall.Term) {
		for _, h := range k.Search(recall.Query{Query: query, Limit: 10}).Data {
			if h.Key == key {
				out = h.Why.Terms
			}
		}
		return out
	}
	if got := terms("instrument", "short"); len(got) != 1 || !got[0].Soft || !slices.Equal(got[0].As, []string{"guitar"}) ||
		got[0].Weight <= 0 {
		t.Errorf("a similar word: %+v", got)
	}
	if got, own := terms("instrument", "short"), terms("instrument", "own"); len(own) != 1 || own[0].Soft ||
		len(got) == 1 && got[0].Weight >= own[0].Weight {
		t.Errorf("the word itself: %+v", own)
	}
	if got := terms("instrument", "long"); len(got) > 0 {
		t.Errorf("in a long text: %+v", got)
	}
	if got := terms("instrument", "other"); len(got) > 0 {
		t.Errorf("another word: %+v", got)
	}
	if got := terms(`"instrument"`, "short"); len(got) > 0 {
		t.Errorf("quoted: %+v", got)
	}
	k.Sound()
}

// Similar words are those of the namespace that a query names. What others hold changes nothing.
func TestSimilarWordsAreOfTheNamespace(t *testing.T) {
	k := embeddingStatic(t, memstore.New(), staticmodel.Write(t, []string{"instrument", "guitar", "piano", "violin"}, cooking, coast))
	k.SetIn("default", static)
	keep := func(key, owner, text string) {
		k.Remember(memory.Spec{Key: key, Namespace: []string{"users", owner}, Content: text})
	}
	keep("a", "ada", "A guitar is in the attic")
	keep("b", "ada", "Nothing of the kind")
	k.Drain()
	ask := func() recall.Result {
		return k.Search(recall.Query{Query: "instrument", Namespace: []string{"users", "ada"}})
	}
	before := ask()
	if len(before.Data) == 0 || !slices.Equal(before.Data[0].Why.Terms[0].As, []string{"guitar"}) {
		t.Fatalf("%+v", before)
	}
	for i := range 50 {
		keep(fmt.Sprint("c", i), "bob", fmt.Sprint("A piano, a violin and a guitar, ", i))
	}
	k.Drain()
	if after := ask(); !reflect.DeepEqual(before, after) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
