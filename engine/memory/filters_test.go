package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// Conditions follow LangGraph's BaseStore, on any JSON.
func TestConditions(t *testing.T) {
	value := `{"n":5,"big":9007199254740993,"s":"b","yes":true,"none":null,"list":[1,"a"],"deep":{"city":"Oslo","zip":1}}`
	k := enginetest.New(t)
	k.Remember(memory.Spec{Key: "it", Value: json.RawMessage(value)})
	for conditions, want := range map[string]bool{
		`{}`: true, `{"n":5}`: true, `{"n":5.0}`: true, `{"n":"5"}`: false, `{"n":6}`: false,
		`{"big":9007199254740993}`: true, `{"big":9007199254740992}`: false, `{"big":{"$gt":9007199254740992}}`: true,
		`{"n":{"$eq":5}}`: true, `{"n":{"$ne":5}}`: false, `{"absent":{"$ne":5}}`: true, `{"absent":null}`: true,
		`{"n":{"$gt":4,"$lt":6}}`: true, `{"n":{"$gt":5}}`: false, `{"n":{"$gte":5,"$lte":5}}`: true,
		`{"s":{"$gt":"a"}}`: true, `{"s":{"$gt":1}}`: false, `{"s":{"$lt":"b"}}`: false, `{"absent":{"$gt":1}}`: false,
		`{"n":{"$in":[1,5]}}`: true, `{"n":{"$in":["5"]}}`: false, `{"n":{"$in":[]}}`: false, `{"yes":true}`: true,
		`{"yes":{"$ne":false}}`: true, `{"none":null}`: true, `{"list":[1,"a"]}`: true, `{"list":["a",1]}`: false,
		`{"deep":{"city":"Oslo"}}`: true, `{"deep":{"city":{"$in":["Oslo","Bergen"]},"zip":{"$lt":2}}}`: true,
		`{"deep":{"city":"Bergen"}}`: false, `{"n":{"city":"Oslo"}}`: false, `{"n":5,"s":"c"}`: false,
		`{"deep":{"$eq":{"zip":1,"city":"Oslo"}}}`: true, `{"deep":{"$eq":{"zip":1}}}`: false,
	} {
		var c memory.Conditions
		if err := json.Unmarshal([]byte(conditions), &c); err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]int{
			"list": len(k.ListMemories(memory.Filter{Value: c}, 5)), "recent": len(k.Found(recall.Query{Query: "*", Value: c})),
			"words": len(k.Found(recall.Query{Query: "oslo", Value: c}))} {
			if got == 1 != want {
				t.Errorf("%s by %s: %d", conditions, name, got)
			}
		}
	}
	for wrong, code := range map[string]string{`{"n":{"$near":1}}`: "unknown_operator", `{"n":{"$gt":null}}`: "invalid_value",
		`{"n":{"$in":1}}`: "invalid_value", `{"n":{"$eq":1,"x":2}}`: "unknown_operator", `{"$or":[{"n":5}]}`: "unknown_operator",
		`{"n":{"x":{"$eq":1,"$and":[]}}}`:                         "unknown_operator",
		strings.Repeat(`{"n":`, 9) + `1` + strings.Repeat(`}`, 9): "too_many"} {
		var c memory.Conditions
		if err := json.Unmarshal([]byte(wrong), &c); err != nil {
			t.Fatal(err)
		}
		f := memory.Filter{Metadata: c}
		if err := f.Check(); codeOf(err) != code {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// Lists, the most recent memories and the results of a search are the same memories: those that a simple implementation
// of the filter selects.
func TestFiltersPickTheSame(t *testing.T) {
	k := enginetest.New(t)
	r := rand.New(rand.NewPCG(1, 2))
	some := func(all ...string) (out []string) {
		for _, s := range all {
			if r.IntN(3) == 0 {
				out = append(out, s)
			}
		}
		return out
	}
	categories := []string{"core", "daily", "conversation"}
	var stored []memory.Memory
	for i := range 120 {
		spec := memory.Spec{Key: fmt.Sprint("k", i), Content: fmt.Sprint("apple ", i), Tags: some("a", "b", "c"),
			Category: categories[r.IntN(3)], Namespace: some("x", "y"),
			Metadata: map[string]json.RawMessage{"n": json.RawMessage(fmt.Sprint(r.IntN(5)))}}
		if r.IntN(2) == 0 {
			at := k.Clock().Add(-time.Duration(r.IntN(1000)) * time.Hour)
			spec.OccurredAt = &at
		}
		stored = append(stored, k.Remember(spec))
		if i == 60 {
			k.Drain() // some are in the index's blocks
		}
	}
	for range 150 {
		f := memory.Filter{Tags: some("a"), TagsAny: some("a", "b"), TagsNot: some("c"), Categories: some(categories...),
			Namespace: some("x", "y")}
		bound := k.Clock().Add(-time.Duration(r.IntN(1000)) * time.Hour)
		if r.IntN(3) == 0 {
			f.Since = bound.Format(time.RFC3339)
			bound = bound.Truncate(time.Second)
		}
		n := r.IntN(5)
		if r.IntN(2) == 0 {
			f.Metadata = memory.Conditions{"n": json.RawMessage(fmt.Sprintf(`{"$gte":%d}`, n))}
		}
		var want []string
		for _, m := range stored {
			has := func(tag string) bool { return slices.Contains(m.Tags, tag) }
			if len(f.Tags) > 0 && !has("a") || len(f.TagsNot) > 0 && has("c") ||
				len(f.TagsAny) > 0 && !slices.ContainsFunc(f.TagsAny, has) ||
				len(f.Categories) > 0 && !slices.Contains(f.Categories, m.Category) ||
				f.Since != "" && m.Time().Before(bound) || f.Metadata != nil && m.Metadata["n"][0] < '0'+byte(n) ||
				len(m.Namespace) < len(f.Namespace) || !slices.Equal(m.Namespace[:len(f.Namespace)], f.Namespace) {
				continue
			}
			want = append(want, m.Key)
		}
		slices.Sort(want)
		var listed []string
		for _, m := range k.ListMemories(f, 7) {
			listed = append(listed, m.Key)
		}
		q := recall.Query{Tags: f.Tags, TagsAny: f.TagsAny, TagsNot: f.TagsNot, Categories: f.Categories,
			Namespace: f.Namespace, Since: f.Since, Metadata: f.Metadata, Limit: 100}
		q.Query = "*"
		recent := k.Found(q)
		q.Query = "apple"
		words := k.Found(q)
		for name, got := range map[string][]string{"list": listed, "recent": recent, "words": words} {
			slices.Sort(got)
			if !slices.Equal(got, want[:min(len(want), 100)]) && len(want) <= 100 {
				t.Fatalf("%+v by %s: %q, want %q", f, name, got, want)
			}
		}
	}
}

// Forgetting by a filter keeps what does not match. A dry run keeps everything. Both name the same memories.
func TestForgetMatching(t *testing.T) {
	k := enginetest.New(t)
	for i := range 25 {
		ns := []string{"users", fmt.Sprint(i % 2)}
		k.Remember(memory.Spec{Key: fmt.Sprint("k", i), Namespace: ns, Content: fmt.Sprint("secretword ", i),
			Metadata: map[string]json.RawMessage{"n": json.RawMessage(fmt.Sprint(i % 3))}})
	}
	forget := func(in memory.ForgetMatching) (out memory.ForgottenMatching) {
		t.Helper()
		out, err := k.Memories.ForgetMatching(k.Context(), k.Admin, ident.DefaultProject, in)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	names := func(out memory.ForgottenMatching) (ids []string) {
		for _, f := range out.Data {
			if f.Forgotten == out.DryRun {
				t.Errorf("dry run %v: %+v", out.DryRun, f)
			}
			ids = append(ids, memory.ID(f.Namespace, f.Key))
		}
		return ids
	}
	in := memory.ForgetMatching{Filter: memory.Filter{Namespace: []string{"users", "1"},
		Metadata: memory.Conditions{"n": json.RawMessage("1")}}, DryRun: true, Limit: 3}
	var would, did []string
	for {
		out := forget(in)
		would = append(would, names(out)...)
		in.Cursor = ""
		if !out.HasMore {
			break
		}
		in.Cursor = *out.NextCursor
	}
	if len(k.ListMemories(memory.Filter{}, 50)) != 25 || len(would) != 4 {
		t.Fatalf("the dry run names %q", would)
	}
	for in.DryRun = false; ; {
		out := forget(in)
		did = append(did, names(out)...)
		if !out.HasMore {
			break
		}
	}
	if !slices.Equal(did, would) {
		t.Errorf("forgot %q, and would %q", did, would)
	}
	left := k.ListMemories(memory.Filter{}, 50)
	if len(left) != 21 || len(k.Found(recall.Query{Query: "secretword", Limit: 50})) != 21 {
		t.Errorf("%d are left", len(left))
	}
	for _, m := range left {
		if m.Namespace[1] == "1" && string(m.Metadata["n"]) == "1" {
			t.Errorf("%+v is left", m)
		}
	}
	k.Sound()
	for _, f := range []memory.Filter{{}, {Tags: []string{}}, {Metadata: memory.Conditions{}}} {
		_, err := k.Memories.ForgetMatching(k.Context(), k.Admin, ident.DefaultProject, memory.ForgetMatching{Filter: f})
		if codeOf(err) != "required" {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// failing is a store that counts commits and fails, once, the one that deletes a key with the text.
type failing struct {
	store.Store
	text    string
	commits int
}

func (f *failing) Commit(ctx context.Context, tenant string, b store.Batch) error {
	f.commits++
	holds := func(key []byte) bool { return f.text != "" && strings.Contains(string(key), f.text) }
	if slices.ContainsFunc(b.Delete, holds) {
		f.text = ""
		return errors.New("a failing disk")
	}
	return f.Store.Commit(ctx, tenant, b)
}

// Forgetting by a filter takes few commits, each with its audit entry. If the store fails partway, the response counts
// what was forgotten before, and asking again forgets the rest.
func TestForgetMatchingCounts(t *testing.T) {
	db := &failing{Store: memstore.New()}
	k := enginetest.Open(t, db)
	k.Store = db.Store // it is verified
	const all = 150
	for i := range all {
		k.Remember(memory.Spec{Key: fmt.Sprintf("k%03d", i), Content: fmt.Sprint("word", i), Tags: []string{"bulk"}})
	}
	k.Remember(memory.Spec{Key: "kept", Content: "word"})
	k.Drain()
	forget := func(commits, count int, more bool) {
		t.Helper()
		db.commits = 0
		got, err := k.Memories.ForgetMatching(k.Context(), k.Admin, ident.DefaultProject,
			memory.ForgetMatching{Filter: memory.Filter{Tags: []string{"bulk"}}, Limit: all})
		if err != nil || got.Count != count || len(got.Data) != count || got.HasMore != more || db.commits != commits {
			t.Fatalf("%d of %d forgotten, more %v, in %d commits: %v", got.Count, len(got.Data), got.HasMore, db.commits, err)
		}
	}
	db.text = "k100"
	forget(2, 64, true)  // the second commit failed
	forget(2, 86, false) // 64 and the rest
	forget(0, 0, false)
	audit, err := k.Tenants.ListAudit(k.Context(), k.Admin, records.Page{})
	var said []string
	for _, e := range audit.Data {
		if e.Action == "memory.forget" {
			said = append(said, e.Detail)
		}
	}
	slices.Sort(said)
	want := []string{"22 memories by a filter", "64 memories by a filter", "64 memories by a filter"}
	if err != nil || !slices.Equal(said, want) {
		t.Errorf("the audit has %q: %v", said, err)
	}
	if got := k.Found(recall.Query{Query: "word1 word77 word"}); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("found %q before the index's job ran", got)
	}
	k.Drain()
	k.Sound()
}

// Namespaces are listed once each, in pages of any size, if they are at or below the given one.
func TestNamespacesAreListed(t *testing.T) {
	k := enginetest.New(t)
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{"a", "a!", "a/", "a-", "a b", "a%", "ab", strings.Repeat("l", 120)}
	all := map[string][]string{}
	for range 150 {
		var ns []string
		for range r.IntN(4) {
			ns = append(ns, parts[r.IntN(len(parts))])
		}
		k.Remember(memory.Spec{Namespace: ns, Content: "x"})
		if len(ns) > 0 {
			all[ident.NamespacePath(ns)] = ns
		}
	}
	for _, below := range append([][]string{nil, {"absent"}}, slices.Collect(maps.Values(all))...) {
		want := map[string]bool{}
		for path, ns := range all {
			if len(ns) >= len(below) && slices.Equal(ns[:len(below)], below) {
				want[path] = true
			}
		}
		for _, limit := range []int{1, 7} {
			page, got := records.Page{Limit: limit}, 0
			for {
				list, err := k.Memories.Namespaces(k.Context(), k.Admin, ident.DefaultProject, below, page)
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range list.Data {
					got++
					if !want[ident.NamespacePath(n.Namespace)] {
						t.Fatalf("below %q: %q", below, n.Namespace)
					}
				}
				if !list.HasMore {
					break
				}
				page.Cursor = *list.NextCursor
			}
			if got != len(want) {
				t.Fatalf("below %q there are %d, want %d", below, got, len(want))
			}
		}
		if len(below) > 0 { // cursors may be long
			k.ListMemories(memory.Filter{Namespace: below}, 1)
		}
	}
}
