package recall_test

import (
	"errors"
	"fmt"
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
		if len(r.Data) == 0 || r.Data[0].Key != want || r.Vectors != "used" || r.Data[0].Why.Vector != .3 {
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
