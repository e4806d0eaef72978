package recall_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// Damaged jobs of the index do not block others, and their work is done.
func TestDamagedMarksAreMadeAnew(t *testing.T) {
	for _, prefix := range []string{"j\x00u", "j\x00b", "h\x00"} {
		k := enginetest.Open(t, memstore.New())
		k.Search(recall.Query{Query: "x", Scope: "transcript"})
		k.Post("dash", enginetest.User("a lost word"))
		k.Post("s", enginetest.User("a needle"))
		var b store.Batch
		for _, it := range k.Everything(ident.DefaultTenant) {
			key := string(it.Key)
			if prefix == "j\x00b" && strings.HasPrefix(key, "j\x00u") {
				key = prefix + key[3:11]
			}
			if strings.HasPrefix(key, prefix) && b.Put == nil {
				b.Put = append(b.Put, store.Pair{Key: []byte(key), Value: []byte("rot")})
			}
		}
		if len(b.Put) == 0 {
			t.Fatalf("there is no %q", prefix)
		}
		if err := k.Store.Commit(t.Context(), ident.DefaultTenant, b); err != nil {
			t.Fatal(err)
		}
		k.Search(recall.Query{Query: "needle", Scope: "transcript"})
		k.Drain()
		if got := k.Found(recall.Query{Query: "needle", Scope: "transcript"}); len(got) != 1 {
			t.Errorf("%q: found %q", prefix, got)
		}
		for _, it := range k.Everything(ident.DefaultTenant) {
			if strings.HasPrefix(string(it.Key), "j\x00u") || strings.HasPrefix(string(it.Key), "j\x00b") {
				t.Errorf("%q: there is still %q", prefix, it.Key)
			}
		}
	}
}

// An index of an older build with another encoding is rebuilt, whichever request finds it first.
func TestAnIndexOfAnEarlierBuild(t *testing.T) {
	for name, first := range map[string]func(k *enginetest.Kit){
		"a query":      func(k *enginetest.Kit) { k.Search(recall.Query{Query: "tandem"}) },
		"an overwrite": func(k *enginetest.Kit) { k.Keep("m0", "a tandem with saddles") },
		"forgetting":   func(k *enginetest.Kit) { k.Forget("m89") },
	} {
		k := enginetest.Open(t, memstore.New())
		for i := range 90 {
			k.Keep(fmt.Sprint("m", i), fmt.Sprint("tandem number ", i))
		}
		k.Drain()
		k.Keep("fresh", "a tandem not in blocks yet")
		var b store.Batch
		earlier := 0
		for _, it := range k.Everything(ident.DefaultTenant) {
			switch key := string(it.Key); {
			case !records.RecallMemory.Is(it.Key) && !records.RecallBlock.Is(it.Key):
				continue
			case strings.HasPrefix(key[10:], "mk"):
				it.Value = []byte(`{"first":{"Stream":0,"Pos":1},"count":1}`)
			default:
				it.Value = append([]byte{2}, it.Value[1:]...)
			}
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: it.Value})
			earlier++
		}
		if err := store.Seal(k.Store).Commit(t.Context(), ident.DefaultTenant, b); err != nil || earlier < 180 {
			t.Fatalf("%d records: %v", earlier, err)
		}
		first(k)
		k.Search(recall.Query{Query: "tandem"})
		k.Drain()
		want := 91
		if name == "forgetting" {
			want--
		}
		if r := k.Search(recall.Query{Query: "tandem", Limit: 100}); r.Incomplete || len(r.Data) != want {
			t.Errorf("%s: incomplete %v, %d of %d found", name, r.Incomplete, len(r.Data), want)
		}
		k.Sound()
	}
}

// An index made by other rules is rebuilt even without a request.
func TestAnIndexOfOtherRules(t *testing.T) {
	k := enginetest.Open(t, memstore.New())
	for i := range 90 {
		k.Keep(fmt.Sprint("m", i), fmt.Sprint("tandem number ", i))
	}
	k.Drain()
	var b store.Batch
	for _, it := range k.Everything(ident.DefaultTenant) {
		if records.RecallCorpus.Is(it.Key) {
			former := strings.Replace(string(it.Value), `"analyser":3,`, "", 1)
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: []byte(former)})
		}
	}
	if err := store.Seal(k.Store).Commit(t.Context(), ident.DefaultTenant, b); err != nil || len(b.Put) != 1 {
		t.Fatalf("%d records: %v", len(b.Put), err)
	}
	k.Drain()
	for _, it := range k.Everything(ident.DefaultTenant) {
		if records.RecallCorpus.Is(it.Key) && !strings.Contains(string(it.Value), `"analyser":3,`) {
			t.Errorf("the index was not built again: %s", it.Value)
		}
	}
	if r := k.Search(recall.Query{Query: "tandem", Limit: 100}); r.Incomplete || len(r.Data) != 90 {
		t.Errorf("incomplete %v, %d of 90 found", r.Incomplete, len(r.Data))
	}
	k.Sound()
}

// Words of a memory no longer count once it is forgotten, though their postings are removed later.
func TestForgottenWordsScoreNothing(t *testing.T) {
	k := enginetest.New(t)
	k.Remember(memory.Spec{Key: "near", Content: "innocent words", SessionID: "s", Category: "conversation"})
	var distinct strings.Builder
	for i := range 1_999 {
		fmt.Fprintf(&distinct, "w%d ", i)
	}
	k.Remember(memory.Spec{Key: "big", Content: distinct.String() + "secretword", SessionID: "s",
		Category: "conversation"})
	k.Remember(memory.Spec{Key: "behind", Content: "other words", SessionID: "s", Category: "conversation"})
	fill(k)
	k.Forget("big")
	for _, q := range []string{"secretword", "w1500", "w999", "w3"} {
		if got := k.Found(recall.Query{Query: q}); len(got) > 0 {
			t.Errorf("%s finds %q", q, got)
		}
	}
}

// A viewer learns nothing about the words of another delegation, even though a posting has only a hash of its
// delegation and both have the same hash.
func TestViewersWithTheSameHash(t *testing.T) {
	k := enginetest.New(t)
	k.Post("s1", enginetest.User("the public question"),
		`{"role":"assistant","content":"merger with Acme","delegation_id":"deleg-A"}`)
	for _, how := range []string{"not indexed", "in blocks"} {
		for i := range 400 { // 280 has the same hash
			v := fmt.Sprint("d", i)
			if got := k.Found(recall.Query{Query: "merger", Scope: "transcript",
				Viewer: &ident.Viewer{Agent: "x", DelegationID: &v}}); len(got) > 0 {
				t.Errorf("%s: viewer %s finds %q", how, v, got)
			}
		}
		for n := range 70 {
			k.Post("s2", enginetest.User(fmt.Sprint("chatter ", n)))
		}
		k.Drain()
	}
	v := "deleg-A"
	if got := k.Found(recall.Query{Query: "merger", Scope: "transcript",
		Viewer: &ident.Viewer{DelegationID: &v}}); len(got) != 2 {
		t.Errorf("its own viewer finds %q", got)
	}
	v = "no\tid"
	_, err := k.Recall.Recall(t.Context(), k.Admin, ident.DefaultProject,
		recall.Query{Query: "x", Viewer: &ident.Viewer{DelegationID: &v}})
	enginetest.WantKind(t, err, fault.Invalid)
}

// If the session is gone, the other half of the question is still answered.
func TestMemoriesOutliveTheirSession(t *testing.T) {
	k := enginetest.New(t)
	k.Remember(memory.Spec{Key: "m", Content: "piano tuning", SessionID: "gone", Category: "conversation"})
	for _, query := range []string{"piano", "*"} {
		if got := k.Found(recall.Query{Query: query, Scope: "both", SessionID: "gone"}); len(got) != 1 {
			t.Errorf("%s finds %q", query, got)
		}
	}
	_, err := k.Recall.Recall(t.Context(), k.Admin, ident.DefaultProject,
		recall.Query{Query: "piano", Scope: "transcript", SessionID: "gone"})
	enginetest.WantKind(t, err, fault.NotFound)
}

// A query without words shows nothing of damaged memories and skips damaged entries and heads.
func TestRecentPassesByDamage(t *testing.T) {
	k := enginetest.Open(t, memstore.New(), func(o *engine.Options) { o.Memories.Count = 100 })
	for i := range 4 {
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: fmt.Sprint("apple", i)})
		k.Post(fmt.Sprint("s", i), enginetest.User(fmt.Sprint("message ", i)))
		k.Advance(time.Hour)
	}
	k.Damage("apple1")
	for _, prefix := range []string{"e\x00t", "h\x00"} {
		for _, it := range k.Everything(ident.DefaultTenant) {
			if strings.HasPrefix(string(it.Key), prefix) && strings.ContainsAny(string(it.Key[11:]), "23") {
				b := store.Batch{Put: []store.Pair{{Key: it.Key, Value: []byte("rot")}}}
				if err := k.Store.Commit(t.Context(), ident.DefaultTenant, b); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	if got := strings.Join(k.Found(recall.Query{Query: "*"}), " "); got != "m2 m0" {
		t.Errorf("memories: %s", got)
	}
	got := strings.Join(k.Found(recall.Query{Query: "*", Scope: "transcript"}), " ")
	if got != "message 3 message 1 message 0" {
		t.Errorf("messages: %s", got)
	}
	if got := k.ListMemories(memory.Filter{}, 10); len(got) != 3 {
		t.Errorf("%d are listed", len(got))
	}
	k.Advance(time.Hour)
	k.Remember(memory.Spec{Key: "more", Content: "counted anew"})
}

// The size of a response is limited, and it says what it leaves out, however long messages and memories are.
func TestRecallBoundsItsAnswer(t *testing.T) {
	k := enginetest.New(t)
	long := strings.Repeat("word ", 3<<20/5)
	for i := range 4 {
		k.Post("s", enginetest.User(fmt.Sprint("needle ", i, long)), enginetest.User(fmt.Sprint("a short needle ", i)))
	}
	for i := range 6 {
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: fmt.Sprint("needle ", i, " ", long[:900_000])})
	}
	for _, query := range []string{"needle", "*"} {
		for _, scope := range []string{"transcript", "both"} {
			size := 0
			r := k.Search(recall.Query{Query: query, Scope: scope, Limit: 100})
			for _, h := range r.Data {
				size += len(h.Content)
			}
			if size > 8<<20 || size < 4<<20 || !r.Incomplete {
				t.Errorf("%s of %s: %d bytes, incomplete: %v", query, scope, size, r.Incomplete)
			}
		}
	}
}

// A unit of background work that fails permanently does not block the others, and is reported.
func TestAFailingUnitHoldsUpNoOther(t *testing.T) {
	k := enginetest.Open(t, memstore.New())
	k.Remember(memory.Spec{Key: "note", Content: "perishable pear", Category: "daily"})
	k.Post("dash", enginetest.User("hi"))
	for _, job := range []string{"j\x00s" + "short", "j\x00p" + "short"} {
		b := store.Batch{Put: []store.Pair{{Key: []byte(job), Value: []byte("rot")}}}
		if err := k.Store.Commit(t.Context(), ident.DefaultTenant, b); err != nil {
			t.Fatal(err)
		}
	}
	k.Advance(9 * 24 * time.Hour)
	for range 70 {
		k.Remember(memory.Spec{Content: "later"})
	}
	failed := false
	for range 20 {
		_, err := k.Step(t.Context())
		failed = failed || err != nil
	}
	if !failed {
		t.Error("no step tells of the damaged jobs")
	}
	blocks := 0
	for _, it := range k.Everything(ident.DefaultTenant) {
		if it.Key[0] == 'v' && string(it.Key[10:12]) == "mt" {
			blocks++
		}
	}
	if k.Holds(ident.DefaultTenant, "perishable") || blocks == 0 {
		t.Errorf("there are %d blocks; an expired memory is there: %v", blocks,
			k.Holds(ident.DefaultTenant, "perishable"))
	}
}

// If a query has more words than count, the rare ones count, wherever they are.
func TestRareWordsOfALongQueryCount(t *testing.T) {
	k := enginetest.New(t)
	var query strings.Builder
	for i := range 100 {
		fmt.Fprintf(&query, "common%d ", i)
	}
	for i := range 3 {
		k.Remember(memory.Spec{Key: fmt.Sprint("common", i), Content: query.String() + fmt.Sprint(i)})
	}
	k.Remember(memory.Spec{Key: "rare", Content: "needle"})
	for _, how := range []string{"fresh", "in blocks"} {
		if got := k.Found(recall.Query{Query: query.String() + "needle", Limit: 100}); len(got) != 4 {
			t.Errorf("%s: found %q", how, got)
		}
		fill(k)
	}
}

// A query ends when its context is cancelled.
func TestRecallEndsWithItsCaller(t *testing.T) {
	k := enginetest.New(t)
	k.Remember(memory.Spec{Content: "words"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := k.Recall.Recall(ctx, k.Admin, ident.DefaultProject, recall.Query{Query: "words"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
