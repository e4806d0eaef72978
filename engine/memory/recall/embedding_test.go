package recall_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// documentReads is a store that counts the reads of documents in blocks.
type documentReads struct {
	store.Store
	n atomic.Int64
}

func (c *documentReads) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	r, err := c.Store.Read(ctx, tenant, q)
	for _, it := range slices.Concat(append(r.Ranges, r.Keys)...) {
		if records.RecallDocument.Is(it.Key) {
			c.n.Add(1)
		}
	}
	return r, err
}

// The number of reads for making vectors of new documents does not depend on how many exist. A restart does not start
// over.
func TestVectorsOfWhatIsNewReadLittle(t *testing.T) {
	counted := &documentReads{Store: memstore.New()}
	k, server := embedding(t, counted)
	k.SetIn("default", model)
	for i := range 300 {
		k.Keep(fmt.Sprint("m", i), fmt.Sprint("fact number ", i))
	}
	k.Drain()
	if n := vectors(k); n != 600 {
		t.Fatalf("%d records of vectors", n)
	}
	counted.n.Store(0)
	for i := range 10 {
		k.Keep(fmt.Sprint("new", i), fmt.Sprint("another fact ", i))
		k.Drain()
	}
	if n := counted.n.Load(); n > 100 || vectors(k) != 620 {
		t.Errorf("%d documents were read for 10 new ones; %d records of vectors", n, vectors(k))
	}
	calls := server.Calls()
	again := embeddingBy(t, counted, server.URL+"/v1")
	counted.n.Store(0)
	again.Advance(time.Hour)
	again.Drain()
	if n := counted.n.Load(); n > 0 || server.Calls() != calls {
		t.Errorf("after a restart %d documents were read, %d calls made", n, server.Calls()-calls)
	}
	if r := enginetest.Verified(t, counted.Store); len(r.Findings) > 0 {
		t.Errorf("findings: %+v", r.Findings)
	}
}

// A text that the provider refuses while it accepts another is skipped permanently, even after a restart, until another
// model may accept it.
func TestARefusedTextIsNotAskedAgain(t *testing.T) {
	k, server := embedding(t, memstore.New())
	k.SetIn("default", model)
	server.Refuse("poison")
	k.Keep("m", "a fact with poison")
	k.Drain()
	if server.Calls() != 1 {
		t.Fatalf("%d calls", server.Calls())
	}
	k.Advance(time.Hour)
	k.Keep("n", "another fact")
	patiently(k)
	calls := server.Calls()
	again := embeddingBy(t, k.Store, server.URL+"/v1")
	again.Advance(5 * time.Hour)
	patiently(again)
	if server.Calls() != calls || calls > 5 || vectors(k) != 2 {
		t.Errorf("%d calls, %d records", server.Calls(), vectors(k))
	}
	server.Refuse("")
	again.SetIn("default", `{"embedding_model":"other"}`)
	again.Drain()
	if vectors(k) != 4 {
		t.Errorf("%d records of another model", vectors(k))
	}
	k.Sound()
}

// What was stored before a project had a model, in blocks or not, gets vectors, and so does what is added in the
// meantime.
func TestVectorsOfWhatWasThereBefore(t *testing.T) {
	k, _ := embedding(t, memstore.New())
	for i := range 1100 { // more than one step marks
		k.Keep(fmt.Sprint("m", i), fmt.Sprint("fact number ", i))
	}
	k.Drain()
	k.SetIn("default", model)
	for i := range 200 {
		if _, err := k.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			k.Keep(fmt.Sprint("new", i), fmt.Sprint("another fact ", i))
			k.Forget(fmt.Sprint("m", i))
		}
	}
	k.Drain()
	if n := vectors(k); n != 2*1100 {
		t.Errorf("%d records of vectors", n)
	}
	k.Sound()
}

// embedderFunc is a provider within the test.
type embedderFunc func(ctx context.Context, r recall.EmbedRequest) (recall.Embedded, error)

func (f embedderFunc) Embed(ctx context.Context, r recall.EmbedRequest) (recall.Embedded, error) {
	return f(ctx, r)
}

// ones returns a vector for each text.
func ones(r recall.EmbedRequest) (recall.Embedded, error) {
	out := recall.Embedded{Tokens: len(r.Texts)}
	for range r.Texts {
		out.Vectors = append(out.Vectors, []float32{1, 1, 1, 1, 1, 1, 1, 1})
	}
	return out, nil
}

func embeddingWith(t testing.TB, raw store.Store, f embedderFunc) *enginetest.Kit {
	t.Helper()
	return enginetest.Open(t, raw, func(o *engine.Options) { o.Embedder = f })
}

func timedOut(recall.EmbedRequest) (recall.Embedded, error) {
	return recall.Embedded{}, &recall.ProviderError{Code: "provider_timeout", Detail: "no answer"}
}

// A provider that hangs is called by one request at a time, and once for all spaces of all projects, whichever models
// they have. Background work itself makes no calls.
func TestAProviderThatHangsIsTriedOnce(t *testing.T) {
	calls, answer := 0, timedOut
	k := embeddingWith(t, memstore.New(), func(_ context.Context, r recall.EmbedRequest) (recall.Embedded, error) {
		calls++
		return answer(r)
	})
	for i := range 5 {
		id := fmt.Sprint("p", i)
		k.MakeProject(id)
		k.SetIn(id, fmt.Sprintf(`{"embedding_model":"model %d"}`, i%2))
		_, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, id, memory.Spec{Key: "m", Content: "a fact"})
		if err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		var err error
		if more, err = k.Jobs.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 0 {
		t.Fatalf("background work itself made %d calls", calls)
	}
	for trial, wait := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
		if trial > 0 {
			k.Advance(wait - time.Millisecond)
			k.Drain()
			if calls != trial {
				t.Fatalf("%d calls, want %d: it is too early for a trial", calls, trial)
			}
			k.Advance(time.Millisecond)
		}
		k.Drain()
		if calls != trial+1 {
			t.Fatalf("%d calls after trial %d", calls, trial)
		}
	}
	answer = ones
	k.Advance(time.Minute)
	k.Drain()
	if vectors(k) != 10 || calls != 4+5 {
		t.Errorf("%d records after %d calls once it answers", vectors(k), calls)
	}
}

// A tenant with much to embed does not keep another from its turn.
func TestTenantsTakeTurnsAtTheProvider(t *testing.T) {
	var texts []string
	k := embeddingWith(t, memstore.New(), func(_ context.Context, r recall.EmbedRequest) (recall.Embedded, error) {
		texts = append(texts, r.Texts...)
		return ones(r)
	})
	k.SetIn("default", model)
	for i := range 400 {
		k.Keep(fmt.Sprint("m", i), fmt.Sprint("fact number ", i))
	}
	c := anotherTenant(t, k, "other")
	keepFor(t, k, c, "the only one")
	k.Drain()
	if at := slices.Index(texts, "the only one"); at < 0 || at > 64 || len(texts) != 401 {
		t.Errorf("it was embedded behind %d of %d texts", at, len(texts))
	}
}

func anotherTenant(t testing.TB, k *enginetest.Kit, id string) ident.Caller {
	t.Helper()
	made, err := k.CreateTenant(t.Context(), ident.Once{}, tenant.Spec{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	c, err := k.Tenants.Authenticate(t.Context(), made.AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Projects.PatchSettings(t.Context(), c, ident.DefaultProject, []byte(model)); err != nil {
		t.Fatal(err)
	}
	return c
}

func keepFor(t testing.TB, k *enginetest.Kit, c ident.Caller, content string) {
	t.Helper()
	if _, _, err := k.Memories.Store(t.Context(), c, ident.Once{}, ident.DefaultProject,
		memory.Spec{Key: "m", Content: content}); err != nil {
		t.Fatal(err)
	}
}

// While a call for one tenant hangs, another tenant's memories are put into blocks and get vectors. The end of the
// process ends the call, and does not count as a failure of the provider.
func TestACallThatHangsHoldsUpNobody(t *testing.T) {
	hangs, made := make(chan struct{}), make(chan struct{})
	var once sync.Once
	k := embeddingWith(t, memstore.New(), func(ctx context.Context, r recall.EmbedRequest) (recall.Embedded, error) {
		if r.Texts[0] == "hangs" {
			close(hangs)
			<-ctx.Done()
			return timedOut(r)
		}
		once.Do(func() { close(made) })
		return ones(r)
	})
	k.SetIn("default", model)
	k.Keep("m", "hangs")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Run(ctx, nil)
	}()
	<-hangs
	c := anotherTenant(t, k, "other")
	keepFor(t, k, c, "is embedded meanwhile")
	<-made
	stop()
	<-ended
	u, err := k.Tenants.Usage(t.Context(), k.Admin)
	if err != nil || u.Embeddings.Failures != 0 {
		t.Errorf("usage %+v, %v", u.Embeddings, err)
	}
	k.Sound()
}

// While the provider hangs, one query waits for it and the others are answered by words at once, with the reason, until
// the next trial is due.
func TestOneQueryTriesAProviderThatHangs(t *testing.T) {
	var calls atomic.Int64
	entered, leave := make(chan struct{}), make(chan struct{})
	answer := timedOut
	k := embeddingWith(t, memstore.New(), func(ctx context.Context, r recall.EmbedRequest) (recall.Embedded, error) {
		if calls.Add(1) == 3 {
			close(entered)
			<-leave
		}
		return answer(r)
	})
	k.Keep("m", "The tandem has two saddles")
	k.Drain()
	k.SetIn("default", model)
	ask := func(want string) {
		t.Helper()
		r := k.Search(recall.Query{Query: "tandem"})
		if len(r.Data) != 1 || r.Vectors != want {
			t.Errorf("%d hits, vectors %q, want %q", len(r.Data), r.Vectors, want)
		}
	}
	for range 10 {
		ask("provider_timeout")
	}
	if n := calls.Load(); n != 1 {
		t.Fatalf("%d queries waited for a provider that hangs", n)
	}
	k.Advance(time.Second)
	for range 10 {
		ask("provider_timeout")
	}
	if n := calls.Load(); n != 2 {
		t.Fatalf("%d queries in all after the first trial", n)
	}
	k.Advance(2 * time.Second)
	trial := make(chan string)
	go func() { trial <- k.Search(recall.Query{Query: "tandem"}).Vectors }()
	<-entered // the trial has started
	ask("provider_timeout")
	answer = ones
	close(leave)
	if got := <-trial; got != "used" || calls.Load() != 3 {
		t.Errorf("the trial says %q after %d calls", got, calls.Load())
	}
	ask("used")
	// A query that was cancelled says nothing about the provider.
	ctx, stop := context.WithCancel(t.Context())
	stop()
	answer = timedOut
	_, err := k.Recall.Recall(ctx, k.Admin, ident.DefaultProject, recall.Query{Query: "tandem"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a query that was given up: %v", err)
	}
	answer = ones
	ask("used")
}

// A project whose queries time out too early, or whose model fails, is the only one without vectors.
func TestFailuresStayWithThoseThatFail(t *testing.T) {
	k := embeddingWith(t, memstore.New(), func(_ context.Context, r recall.EmbedRequest) (recall.Embedded, error) {
		switch {
		case strings.Contains(r.Texts[0], "slow"):
			return timedOut(r)
		case r.Model == "broken":
			return recall.Embedded{}, &recall.ProviderError{Code: "provider_error", Detail: "no"}
		}
		return ones(r)
	})
	for id, model := range map[string]string{"hasty": "near", "broken": "broken", "well": "near"} {
		k.MakeProject(id)
		k.SetIn(id, fmt.Sprintf(`{"embedding_model":%q}`, model))
	}
	ask := func(project, query, want string) {
		t.Helper()
		r, err := k.Recall.Recall(t.Context(), k.Admin, project, recall.Query{Query: query})
		if err != nil || r.Vectors != want {
			t.Errorf("%s says %q, want %q; %v", project, r.Vectors, want, err)
		}
	}
	ask("hasty", "slow tandem", "provider_timeout")
	ask("broken", "tandem", "provider_error")
	ask("hasty", "tandem", "provider_timeout")
	ask("broken", "tandem", "provider_error")
	ask("well", "tandem", "used")
}

// If a provider makes vectors of another length than before, responses say that the old ones do not count, and all are
// made again. A single odd text does not cause this.
func TestVectorsOfAnotherLengthAreMadeAnew(t *testing.T) {
	k, server := embedding(t, memstore.New())
	k.SetIn("default", model)
	for i := range 40 {
		k.Keep(fmt.Sprint("m", i), fmt.Sprint("fact number ", i))
	}
	k.Drain()
	server.Answer("odd", make([]float32, 0))
	server.Answer("longer", []float32{1, 2, 3})
	k.Keep("odd", "a longer one")
	k.Drain()
	k.Advance(time.Hour)
	k.Keep("even", "one as the others")
	k.Drain()
	if n := vectors(k); n != 2*41 || len(server.Texts()) != 42 {
		t.Fatalf("one odd text: %d records, %d texts", n, len(server.Texts()))
	}
	server.Lengthen(128)
	q := recall.Query{Query: "factual"}
	for range 2 {
		if r := k.Search(q); r.Vectors != "dimensions_changed" {
			t.Fatalf("with vectors of another length: %q", r.Vectors)
		}
	}
	patiently(k)
	if r := k.Search(q); r.Vectors != "used" || len(r.Data) == 0 || vectors(k) != 2*41 {
		t.Errorf("after they were made anew: %q, %d hits, %d records", r.Vectors, len(r.Data), vectors(k))
	}
	k.Sound()
	server.Lengthen(64) // A document shows it, too.
	for i := range 2 {
		k.Keep(fmt.Sprint("late", i), fmt.Sprint("late fact ", i))
	}
	patiently(k)
	if r := k.Search(q); r.Vectors != "used" || len(r.Data) == 0 || vectors(k) != 2*43 {
		t.Errorf("told by documents: %q, %d hits, %d records", r.Vectors, len(r.Data), vectors(k))
	}
	k.Sound()
}

// patiently does all background work, including later trials.
func patiently(k *enginetest.Kit) {
	for range 12 {
		k.Drain()
		k.Advance(10 * time.Minute)
	}
}

// Every damage of the records of waiting documents is found, and a damaged model record causes a rebuild of the index.
func TestVerifyKnowsWhatWaitsForVectors(t *testing.T) {
	for name, damage := range map[string]func(waits, model []byte) store.Pair{
		"orphan": func(waits, _ []byte) store.Pair {
			return store.Pair{Key: append(waits[:len(waits)-1:len(waits)-1], 77)}
		},
		"value": func(waits, _ []byte) store.Pair { return store.Pair{Key: waits, Value: []byte("more")} },
		"model": func(_, model []byte) store.Pair { return store.Pair{Key: model, Value: []byte("short")} },
	} {
		k, server := embedding(t, memstore.New())
		k.SetIn("default", model)
		server.Fail(500)
		k.Keep("m", "The tandem has two saddles")
		k.Drain()
		k.Sound()
		var waits, of []byte
		for _, it := range k.Everything(k.Admin.Tenant) {
			if records.RecallUnembedded.Is(it.Key) {
				waits = it.Key
			} else if records.RecallModel.Is(it.Key) {
				of = it.Key
			}
		}
		b := store.Batch{Put: []store.Pair{damage(waits, of)}}
		if err := store.Seal(k.Store).Commit(t.Context(), k.Admin.Tenant, b); err != nil {
			t.Fatal(err)
		}
		if r := k.Verify(); len(r.Findings) == 0 {
			t.Errorf("%s: nothing found", name)
		}
		server.Fail(0)
		k.Keep("wakes", "the job")
		patiently(k)
		if n := vectors(k); n != 4 {
			t.Errorf("%s: %d records of vectors in the end", name, n)
		}
		k.Sound()
	}
}

// A text that is forgotten and removed while the provider is called does not keep the others of the same call from
// their vectors.
func TestATextThatGoesMeanwhileHoldsUpNoOther(t *testing.T) {
	calls := 0
	var k *enginetest.Kit
	k = embeddingWith(t, memstore.New(), func(_ context.Context, r recall.EmbedRequest) (recall.Embedded, error) {
		if calls++; calls == 1 {
			k.Forget("m7")
			for more := true; more; {
				var err error
				if more, err = k.Jobs.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		return ones(r)
	})
	k.SetIn("default", model)
	for i := range 20 {
		k.Keep(fmt.Sprint("m", i), fmt.Sprint("fact number ", i))
	}
	k.Drain()
	if calls != 1 || vectors(k) != 2*19 {
		t.Errorf("%d calls, %d records of vectors", calls, vectors(k))
	}
	k.Sound()
}

// While the provider accepts no text, because of its key or because of bad responses, none is skipped.
func TestAProviderThatTakesNothingLosesNoVector(t *testing.T) {
	for name, fail := range map[string]func(recall.EmbedRequest) (recall.Embedded, error){
		"key": func(recall.EmbedRequest) (recall.Embedded, error) {
			return recall.Embedded{}, &recall.ProviderError{Code: "provider_refused", Detail: "the key"}
		},
		"texts": func(recall.EmbedRequest) (recall.Embedded, error) {
			return recall.Embedded{}, &recall.ProviderError{Code: "provider_refused", Detail: "no", Texts: true}
		},
		"zeros": func(r recall.EmbedRequest) (recall.Embedded, error) {
			return recall.Embedded{Vectors: make([][]float32, len(r.Texts))}, nil
		},
	} {
		answer := fail
		k := embeddingWith(t, memstore.New(), func(_ context.Context, r recall.EmbedRequest) (recall.Embedded, error) {
			return answer(r)
		})
		k.SetIn("default", model)
		for i := range 10 {
			k.Keep(fmt.Sprint("m", i), fmt.Sprint("fact number ", i))
		}
		patiently(k)
		answer = ones
		patiently(k)
		if n := vectors(k); n != 20 {
			t.Errorf("%s: %d records of vectors", name, n)
		}
		k.Sound()
	}
}
