package recall_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
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
)

// damageIndex flips a byte of records of a recall index: all of a space and kind, or only the first of them if all is
// false.
func damageIndex(k *enginetest.Kit, kind string, all bool) {
	k.Helper()
	var b store.Batch
	r, err := k.Store.Read(k.Context(), ident.DefaultTenant, store.Query{Ranges: []store.Range{{}}})
	if err != nil {
		k.Fatal(err)
	}
	for _, it := range r.Ranges[0] {
		if strings.HasPrefix(string(it.Key), "v\x00") && strings.HasPrefix(string(it.Key[10:]), kind) &&
			(all || b.Put == nil) {
			flipped := append([]byte(nil), it.Value...)
			flipped[len(flipped)/2] ^= 1
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: flipped})
		}
	}
	if len(b.Put) == 0 {
		k.Fatalf("there is no record %q", kind)
	}
	if err := k.Store.Commit(k.Context(), ident.DefaultTenant, b); err != nil {
		k.Fatal(err)
	}
}

// Damage of any record of the memories' index fails nothing. The index is rebuilt, responses say so in the meantime,
// and afterwards everything that was stored before the damage and after is found, and nothing that was forgotten.
func TestDamagedIndexIsBuiltAgain(t *testing.T) {
	for _, kind := range []string{"mf", "md", "mt", "ms", "mk", "mn", "mw", "ml", "job"} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, all), func(t *testing.T) {
				k := enginetest.Open(t, memstore.New())
				for i := range 520 { // more than an epoch
					k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: fmt.Sprint("common number", i),
						SessionID: pick(rngOf(i), "", "s")})
				}
				k.Drain()
				k.Remember(memory.Spec{Key: "note", Content: "perishable pear", Category: "daily", SessionID: "s"})
				k.Remember(memory.Spec{Key: "alone", Content: "lonely plum"})
				k.Post("dash", enginetest.User("hi"))
				if kind == "job" {
					damageFoldJob(k, 'm')
				} else {
					damageIndex(k, kind, all)
				}

				k.Search(recall.Query{Query: "pear common plum"})
				k.Ask(`{"session_id":"dash","memories":{"query":"pear common"},"pending":[{"role":"user","content":"x"}]}`)
				k.Remember(memory.Spec{Key: "new", Content: "fresh quince", SessionID: "s"})
				if !k.Forget("alone") || !k.Forget("m0") || !k.Forget("m1") {
					t.Error("not forgotten")
				}
				for i := range 520 { // it reads everything that is damaged
					k.Search(recall.Query{Query: fmt.Sprint("number", i)})
					if i%9 != 2 {
						continue
					}
					k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: fmt.Sprint("common other", i),
						SessionID: "s"})
				}
				if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "dash"); err != nil {
					t.Fatal(err)
				}
				rebuilt := rebuild(k, recall.Query{Query: "common"})
				if !rebuilt && kind != "ml" {
					t.Error("no answer was incomplete")
				}
				k.Advance(9 * 24 * time.Hour)
				for i := range 80 { // so many that all go into blocks
					k.Remember(memory.Spec{Key: fmt.Sprint("later", i), Content: fmt.Sprint("later ", i)})
				}
				k.Drain()
				for _, it := range k.Everything(ident.DefaultTenant) {
					if it.Key[0] == 'm' {
						t.Errorf("of a deleted session there is %q", it.Key)
					}
				}
				for _, q := range []string{"pear", "plum", "number0", "number1", "number2", "number11"} {
					if got := k.Found(recall.Query{Query: q}); len(got) > 0 {
						t.Errorf("%q, once gone, finds %q", q, got)
					}
				}
				for i := 2; i < 520; i++ {
					word := fmt.Sprint("number", i)
					if i%9 == 2 {
						word = fmt.Sprint("other", i)
					}
					if r := k.Search(recall.Query{Query: word, Limit: 1}); r.Incomplete || len(r.Data) != 1 ||
						r.Data[0].Key != fmt.Sprint("m", i) {
						t.Fatalf("in the end %q finds %d, incomplete: %v", word, len(r.Data), r.Incomplete)
					}
				}
				if got := k.Found(recall.Query{Query: "quince"}); len(got) == 0 || got[0] != "new" {
					t.Errorf("in the end %q", got)
				}
				wantWhole(k)
			})
		}
	}
}

// damageFoldJob flips a byte of the job of the default project's index.
func damageFoldJob(k *enginetest.Kit, space byte) {
	k.Helper()
	for _, it := range k.Everything(ident.DefaultTenant) {
		if strings.HasPrefix(string(it.Key), "j\x00f") && it.Key[len(it.Key)-1] == space {
			it.Value[0] ^= 1
			b := store.Batch{Put: []store.Pair{{Key: it.Key, Value: it.Value}}}
			if err := k.Store.Commit(k.Context(), ident.DefaultTenant, b); err != nil {
				k.Fatal(err)
			}
		}
	}
}

// rebuild does all pending work, and reports whether the result of the query was incomplete in the meantime.
func rebuild(k *enginetest.Kit, q recall.Query) (incomplete bool) {
	k.Helper()
	for more := true; more; {
		incomplete = incomplete || k.Search(q).Incomplete
		var err error
		if more, err = k.Step(k.Context()); err != nil {
			k.Fatal(err)
		}
	}
	if k.Search(q).Incomplete {
		k.Error("in the end the answer is incomplete")
	}
	return incomplete
}

// wantWhole fails if anything in the store is wrong.
func wantWhole(k *enginetest.Kit) {
	k.Helper()
	for _, f := range k.Verify().Findings {
		k.Errorf("%s %s: %s", f.Kind, f.Code, f.Detail)
	}
}

// Whatever two servers store and forget between the pieces of a rebuild, and across a restart, recall finally finds
// what there is. Verify never finds anything wrong except the damage itself.
func TestRebuildAmongChanges(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			raw := memstore.New()
			k := enginetest.Open(t, raw)
			ask := recall.Query{Query: "needle", Scope: "transcript", Limit: 100}
			k.Search(ask)
			living := map[string]string{}
			change := func() {
				key := fmt.Sprint("k", r.IntN(300))
				switch n := r.IntN(10); {
				case n < 6:
					text := fmt.Sprint("common word", r.IntN(1_000_000))
					k.Remember(memory.Spec{Key: key, Content: text, SessionID: pick(r, "", "s")})
					living[key] = text
				case n < 9:
					k.Forget(key)
					delete(living, key)
				default:
					k.Post(pick(r, "s1", "s2"), enginetest.User(fmt.Sprint("needle ", r.IntN(1_000_000))))
				}
			}
			for range 400 {
				change()
			}
			k.Drain()
			damageIndex(k, "mt", true)
			damageIndex(k, "tf", true)
			k.Search(recall.Query{Query: "common", Scope: "both"})
			for more := true; more; {
				for range r.IntN(4) {
					change()
				}
				for _, f := range k.Verify().Findings {
					if f.Code != "damaged" { // which is reported until it is dropped
						t.Fatalf("%s %s: %s", f.Kind, f.Code, f.Detail)
					}
				}
				if r.IntN(4) == 0 {
					k = enginetest.Open(t, raw,
						func(o *engine.Options) { o.Random = rand.NewChaCha8([32]byte{byte(r.IntN(256))}) })
				}
				var err error
				if more, err = k.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			k.Drain()
			for i := range 300 {
				key := fmt.Sprint("k", i)
				text := living[key]
				if text == "" {
					continue
				}
				got := k.Search(recall.Query{Query: text, Limit: 1})
				if got.Incomplete || len(got.Data) != 1 || got.Data[0].Content != text {
					t.Fatalf("%q finds %+v", text, got)
				}
			}
			total := 0
			for after := ""; ; {
				page, err := k.Memories.List(t.Context(), k.Admin, ident.DefaultProject, memory.Filter{}, memory.ByKey,
					records.Page{Limit: 100, Cursor: after})
				if err != nil {
					t.Fatal(err)
				}
				total += len(page.Data)
				if !page.HasMore {
					break
				}
				after = *page.NextCursor
			}
			if total != len(living) {
				t.Errorf("%d memories are listed, %d live", total, len(living))
			}
			wantWhole(k)
		})
	}
}

// A damaged document that waits for its block is reported as missing, and made again from its memory.
func TestDamagedDocumentIsMadeAgain(t *testing.T) {
	k := enginetest.Open(t, memstore.New())
	k.Remember(memory.Spec{Key: "note", Content: "ripe pear"})
	damageIndex(k, "mf", false)
	if r := k.Search(recall.Query{Query: "pear"}); len(r.Data) > 0 || !r.Incomplete {
		t.Errorf("%d found, incomplete: %v", len(r.Data), r.Incomplete)
	}
	k.Drain()
	if r := k.Search(recall.Query{Query: "pear"}); len(r.Data) != 1 || r.Incomplete {
		t.Errorf("in the end %d found, incomplete: %v", len(r.Data), r.Incomplete)
	}
}

// The same for damage of a transcript's index: the sessions are indexed again, and deleted ones do not come back.
func TestDamagedTranscriptIndexIsBuiltAgain(t *testing.T) {
	for _, kind := range []string{"tf", "td", "tt", "ts", "tn", "tw", "job"} {
		t.Run(kind, func(t *testing.T) {
			k := enginetest.Open(t, memstore.New())
			ask := recall.Query{Query: "needle", Scope: "transcript", Limit: 100}
			k.Post("first", enginetest.User("one needle"))
			k.Post("gone", enginetest.User("lost needle"))
			k.Search(ask)
			for i := range 640 {
				k.Post(pick(rngOf(i), "s1", "s2"), enginetest.User(fmt.Sprint("common number", i)))
				if i%100 == 99 {
					k.Drain()
				}
			}
			k.Post("s3", enginetest.User("third needle"))
			k.Drain()
			if kind == "job" {
				damageFoldJob(k, 't')
			} else {
				damageIndex(k, kind, true)
			}
			if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "gone"); err != nil {
				t.Fatal(err)
			}
			k.Post("first", enginetest.User("last needle"))
			if !rebuild(k, recall.Query{Query: "common needle", Scope: "transcript", Limit: 100}) {
				t.Error("no answer was incomplete")
			}
			for _, text := range []string{"last needle", "one needle", "third needle", "common number0",
				"common number639"} {
				if got := k.Found(recall.Query{Query: text, Scope: "transcript"}); len(got) == 0 || got[0] != text {
					t.Errorf("%q finds %q", text, got)
				}
			}
			wantWhole(k)
			for _, s := range []string{"first", "s1", "s3"} {
				if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, s); err != nil {
					t.Fatal(err)
				}
			}
			k.Drain()
			if got := k.Found(ask); len(got) > 0 {
				t.Errorf("of deleted sessions: %q", got)
			}
			wantWhole(k)
		})
	}
}
