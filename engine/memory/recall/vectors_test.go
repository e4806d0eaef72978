package recall_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/openai"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/testdata/embedserver"
)

// embedding returns an engine with an embedding provider.
func embedding(t testing.TB, raw store.Store) (*enginetest.Kit, *embedserver.Server) {
	t.Helper()
	server := embedserver.New("a-key-of-some-length")
	t.Cleanup(server.Close)
	return embeddingBy(t, raw, server.URL+"/v1"), server
}

// embeddingBy returns an engine whose embedding provider is at a URL.
func embeddingBy(t testing.TB, raw store.Store, url string) *enginetest.Kit {
	t.Helper()
	e, err := openai.NewEmbedder(openai.Options{BaseURL: url, APIKey: "a-key-of-some-length"})
	if err != nil {
		t.Fatal(err)
	}
	return enginetest.Open(t, raw, func(o *engine.Options) { o.Embedder = e })
}

// vectors counts the records of vectors in the store.
func vectors(k *enginetest.Kit) (n int) {
	for _, it := range k.Everything(k.Admin.Tenant) {
		if key := string(it.Key); strings.HasPrefix(key, "v\x00") && (key[11] == 'y' || key[11] == 'z') {
			n++
		}
	}
	return n
}

const model = `{"embedding_model":"near","embedding_timeout_ms":5000}`

// Words with common parts are found by their vectors, and the parts of each score add up.
func TestVectorsFindWhatWordsDoNot(t *testing.T) {
	k, server := embedding(t, memstore.New())
	for i, text := range []string{"Our automobiles are red", "A cake with apples", "Our tandem has two saddles"} {
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: text})
	}
	k.Drain()
	if server.Calls() != 0 || vectors(k) != 0 {
		t.Fatal("a project without a model called the provider")
	}
	q := recall.Query{Query: "automotive", Limit: 3}
	if r := k.Search(q); len(r.Data) != 0 || r.Vectors != "" {
		t.Fatalf("by words: %+v", r)
	}
	k.SetIn("default", model)
	k.Advance(time.Minute)
	k.Remember(memory.Spec{Key: "m3", Content: "Tides are low at noon"})
	k.Drain()
	if vectors(k) != 8 {
		t.Fatalf("%d records of vectors, want two for each of four memories", vectors(k))
	}
	r := k.Search(q)
	if len(r.Data) == 0 || r.Data[0].Key != "m0" || r.Data[0].Why.Vector <= 0 || r.Vectors != "used" {
		t.Fatalf("with vectors: %+v", r)
	}
	for _, h := range k.Search(recall.Query{Query: "a cake for automotive people", Limit: 3}).Data {
		sum := 0.
		for _, part := range h.Why.Parts() {
			sum += part
		}
		if math.Abs(sum-h.Score) > 1e-6 {
			t.Errorf("%s: the parts are %v, the score is %v", h.Key, sum, h.Score)
		}
	}
	for _, h := range k.Search(recall.Query{Query: "automotive -red", Limit: 3}).Data {
		if h.Key == "m0" {
			t.Error("a hit holds a word that the query leaves out")
		}
	}
	k.Sound()
}

// The newer of two contradicting memories comes first, although the older is nearer to the query.
func TestVectorsLeaveNewerFactsFirst(t *testing.T) {
	k, _ := embedding(t, memstore.New())
	k.SetIn("default", model)
	k.Remember(memory.Spec{Key: "old", Content: "Where the user does live: Berlin"})
	k.Advance(time.Hour)
	k.Remember(memory.Spec{Key: "new", Content: "The user lives, since the spring of the year, in Lisbon"})
	k.Drain()
	r := k.Search(recall.Query{Query: "where does the user live"})
	if len(r.Data) != 2 || r.Data[0].Key != "new" || r.Data[0].Why.Vector >= r.Data[1].Why.Vector {
		t.Errorf("%+v", r)
	}
}

// The nearness of a message depends on its text together with the messages around it and its speaker. Two answers with
// the same words, which say nothing about the question by themselves, differ by what they answer.
func TestVectorsKnowWhatStandsAround(t *testing.T) {
	k, server := embedding(t, memstore.New())
	k.SetIn("default", model)
	for session, texts := range map[string][]string{
		"near": {"Our automobiles are red", "Hm, yes indeed", "Bread needs salt"},
		"far":  {"Tides stay low", "Indeed, hm, yes", "Cats sleep long"},
	} {
		for _, text := range texts {
			k.Post(session, fmt.Sprintf(`{"role":"user","name":"Tom","content":%q}`, text))
		}
	}
	q := recall.Query{Query: "automotive", Scope: "transcript", Limit: 6}
	k.Search(q)
	k.Drain()
	shares := map[string]float64{}
	for _, h := range k.Search(q).Data {
		shares[h.Content] = h.Why.Vector
	}
	if len(shares) != 6 || shares["Hm, yes indeed"] <= shares["Indeed, hm, yes"] ||
		shares["Hm, yes indeed"] >= shares["Our automobiles are red"] {
		t.Errorf("what each message's nearness is worth: %v", shares)
	}
	if !slices.Contains(server.Texts(), "Tom: Tides stay low") {
		t.Errorf("nothing was embedded behind its speaker's name: %q", server.Texts())
	}
	k.Sound()
}

// Forgetting or overwriting removes the vector, another model makes all vectors again, and no model removes all.
func TestVectorsGoWithWhatTheyAreOf(t *testing.T) {
	k, server := embedding(t, memstore.New())
	k.SetIn("default", model)
	for i := range 70 {
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: fmt.Sprint("fact number ", i)})
	}
	k.Drain()
	if n, want := vectors(k), 140; n != want || len(server.Texts()) != 70 {
		t.Fatalf("%d records, %d texts", n, len(server.Texts()))
	}
	k.Forget("m3")
	k.Remember(memory.Spec{Key: "m4", Content: "another fact instead"})
	k.Drain()
	if n, want := vectors(k), 138; n != want || len(server.Texts()) != 71 {
		t.Fatalf("%d records, want %d; %d texts", n, want, len(server.Texts()))
	}
	k.Sound()
	k.SetIn("default", `{"embedding_model":"other"}`)
	k.Remember(memory.Spec{Key: "m5", Content: "wakes the job"})
	k.Drain()
	if n := vectors(k); n != 138 || len(server.Texts()) != 71+69 {
		t.Fatalf("%d records, %d texts after another model", n, len(server.Texts()))
	}
	k.Sound()
	k.SetIn("default", `{"embedding_model":null}`)
	k.Remember(memory.Spec{Key: "m6", Content: "wakes the job again"})
	k.Drain()
	if n := vectors(k); n != 0 {
		t.Fatalf("%d records without a model", n)
	}
	k.Sound()
}

// late is a store in which the commit of a vector comes just before the one that removes its document from blocks.
type late struct {
	store.Store
	held *store.Batch
}

func (l *late) Commit(ctx context.Context, tenant string, b store.Batch) error {
	puts := func(p store.Pair) bool { return records.RecallBits.Is(p.Key) }
	if l.held == nil && slices.ContainsFunc(b.Put, puts) {
		l.held = &b
		return errors.New("the store fails here")
	}
	if l.held != nil && slices.ContainsFunc(b.Delete, records.RecallDead.Is) {
		vectors := *l.held
		l.held = &store.Batch{}
		if err := l.Store.Commit(ctx, tenant, vectors); err != nil {
			return err
		}
	}
	return l.Store.Commit(ctx, tenant, b)
}

// The vector of a text that is forgotten while the provider is called does not stay.
func TestVectorsDoNotOutliveTheirDocuments(t *testing.T) {
	k, _ := embedding(t, &late{Store: memstore.New()})
	k.SetIn("default", model)
	k.Keep("secret", "zebrafish quagmire")
	for range 100 { // until the vector is held back
		if _, err := k.Step(t.Context()); err != nil {
			break
		}
	}
	k.Forget("secret")
	if n := vectors(k); n != 0 || k.Store.(*late).held == nil {
		t.Errorf("%d records of vectors are left", n)
	}
}

// While the provider fails, documents are found by words, the response says why, and the job retries later.
func TestRecallWhileTheProviderFails(t *testing.T) {
	k, server := embedding(t, memstore.New())
	k.SetIn("default", model)
	server.Fail(http.StatusTooManyRequests)
	k.Remember(memory.Spec{Key: "m", Content: "The tandem has two saddles"})
	k.Drain()
	if server.Calls() != 1 || vectors(k) != 0 {
		t.Fatalf("%d calls, %d records", server.Calls(), vectors(k))
	}
	for i, code := range []string{"provider_rate_limited", "provider_error", "provider_refused"} {
		status := []int{429, 500, 401}[i]
		server.Fail(status)
		k.Advance(10 * time.Second) // so that it is retried
		r := k.Search(recall.Query{Query: "tandem"})
		if len(r.Data) != 1 || r.Vectors != code || r.Data[0].Why.Vector != 0 {
			t.Errorf("status %d: %+v", status, r)
		}
	}
	server.Fail(0)
	k.Advance(10 * time.Second)
	k.SetIn("default", `{"embedding_timeout_ms":50}`)
	release := server.Stall()
	if r := k.Search(recall.Query{Query: "tandem"}); len(r.Data) != 1 || r.Vectors != "provider_timeout" {
		t.Errorf("a provider that does not answer: %+v", r)
	}
	release()
	server.Fail(429)
	k.Drain()
	server.Fail(0)
	calls := server.Calls()
	k.Advance(6 * time.Second)
	k.Drain() // the provider asked for seven seconds
	if server.Calls() != calls {
		t.Error("the job did not wait as the provider asked")
	}
	k.Advance(time.Minute)
	k.Remember(memory.Spec{Key: "n", Content: "wakes the job"})
	k.Drain()
	if vectors(k) != 4 {
		t.Errorf("%d records once the provider answers again", vectors(k))
	}
	u, err := k.Tenants.Usage(k.Context(), k.Admin)
	used := u.Embeddings
	if err != nil || used.Calls != int64(server.Calls()) || used.Failures != 6 || used.Tokens == 0 {
		t.Errorf("usage %+v after %d calls, %v", u.Embeddings, server.Calls(), err)
	}
	k.Sound()
}

// One text that the provider refuses does not keep the others from their vectors.
func TestARefusedTextHoldsUpNoOther(t *testing.T) {
	k, server := embedding(t, memstore.New())
	k.SetIn("default", model)
	server.Refuse("poison")
	for i := range 40 {
		content := fmt.Sprint("fact number ", i)
		if i == 20 {
			content += " with poison"
		}
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: content})
	}
	for range 12 { // 32 texts, 16, 8, 4, 2, 1, and then the others
		k.Drain()
		k.Advance(10 * time.Minute)
		k.Remember(memory.Spec{Key: "wakes", Content: "the job"})
	}
	k.Drain()
	if n := vectors(k); n != 2*40 { // 39 of these, and the one that wakes the job
		t.Errorf("%d records of vectors after %d calls", n, server.Calls())
	}
	if r := k.Search(recall.Query{Query: "poison"}); len(r.Data) == 0 || r.Data[0].Key != "m20" {
		t.Errorf("the refused text is not found by its words: %+v", r)
	}
	k.Sound()
}

// A text with an invalid vector, or one of other dimensions than requested, does not keep the others from theirs.
func TestAnOddVectorHoldsUpNoOther(t *testing.T) {
	for name, odd := range map[string][]float32{"zeros": make([]float32, 32), "empty": {}, "longer": make([]float32, 33)} {
		k, server := embedding(t, memstore.New())
		k.SetIn("default", `{"embedding_model":"near","embedding_dimensions":32,"embedding_timeout_ms":5000}`)
		server.Answer("odd", odd)
		for i := range 40 {
			content := fmt.Sprint("fact number ", i)
			if i == 20 {
				content += " is odd"
			}
			k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: content})
		}
		for range 12 {
			k.Drain()
			k.Advance(10 * time.Minute)
			k.Remember(memory.Spec{Key: "wakes", Content: "the job"})
		}
		k.Drain()
		if n := vectors(k); n != 2*40 { // 39 of these, and the one that wakes the job
			t.Errorf("%s: %d records of vectors after %d calls", name, n, server.Calls())
		}
		if r := k.Search(recall.Query{Query: "odd"}); r.Vectors != "bad_reply" || len(r.Data) != 1 || r.Data[0].Key != "m20" {
			t.Errorf("%s: %+v", name, r)
		}
		k.Sound()
	}
}

// Every damage of a vector's records is found.
func TestVerifyKnowsVectors(t *testing.T) {
	for name, damage := range map[string]func(it store.Item) *store.Batch{
		"orphan": func(it store.Item) *store.Batch { // of a place without a document
			key := slices.Clone(it.Key)
			key[len(key)-1] ^= 1
			return &store.Batch{Put: []store.Pair{{Key: key, Value: it.Value}}}
		},
		"missing": func(it store.Item) *store.Batch { return &store.Batch{Delete: [][]byte{it.Key}} },
		"length": func(it store.Item) *store.Batch {
			return &store.Batch{Put: []store.Pair{{Key: it.Key, Value: it.Value[:len(it.Value)-9]}}}
		},
		"signs": func(it store.Item) *store.Batch {
			value := slices.Clone(it.Value)
			for i := 8; i < len(value); i++ {
				value[i] = ^value[i]
			}
			return &store.Batch{Put: []store.Pair{{Key: it.Key, Value: value}}}
		},
		"model": func(it store.Item) *store.Batch {
			return &store.Batch{Put: []store.Pair{{Key: it.Key, Value: append([]byte("8 bytes."), it.Value[8:]...)}}}
		},
	} {
		for _, kind := range []byte("yz") {
			k, _ := embedding(t, memstore.New())
			k.SetIn("default", model)
			k.Remember(memory.Spec{Key: "m", Content: "The tandem has two saddles"})
			k.Drain()
			k.Sound()
			sealed, done := store.Seal(k.Store), false
			for _, it := range k.Everything(k.Admin.Tenant) {
				if !strings.HasPrefix(string(it.Key), "v\x00") || it.Key[11] != kind {
					continue
				}
				got, err := sealed.Read(t.Context(), k.Admin.Tenant, store.Query{Keys: [][]byte{it.Key}})
				if err != nil {
					t.Fatal(err)
				}
				if err := sealed.Commit(t.Context(), k.Admin.Tenant, *damage(got.Keys[0])); err != nil {
					t.Fatal(err)
				}
				done = true
			}
			if report := k.Verify(); !done || len(report.Findings) == 0 {
				t.Errorf("%s of %c: done %v, nothing found", name, kind, done)
			}
		}
	}
}
