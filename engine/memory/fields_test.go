package memory_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
)

// The same key names different memories in different namespaces, whatever characters its parts contain, in every
// response.
func TestNamespacesKeepKeysApart(t *testing.T) {
	k := enginetest.New(t)
	spaces := [][]string{nil, {"users"}, {"users", "1"}, {"users/1"}, {"users!1"}, {"users%2F1"}, {"users", "1", "a b"},
		{"user"}, {"üser", "日本"}}
	for i, ns := range spaces {
		k.Remember(memory.Spec{Key: "home", Namespace: ns, Content: fmt.Sprintf("before %d", i)})
		k.Remember(memory.Spec{Key: "home", Namespace: ns, Content: fmt.Sprintf("cabin number%d", i)})
	}
	for i, ns := range spaces {
		m, err := k.Memories.Get(k.Context(), k.Admin, ident.DefaultProject, memory.ID(ns, "home"))
		if err != nil || m.Content != fmt.Sprintf("cabin number%d", i) || m.Version != 2 || !slices.Equal(m.Namespace, ns) {
			t.Errorf("in %q: %+v %v", ns, m, err)
		}
		if got := k.Search(recall.Query{Query: fmt.Sprintf("number%d", i)}).Data; len(got) != 1 || got[0].Key != "home" ||
			!slices.Equal(got[0].Namespace, ns) {
			t.Errorf("found in %q: %+v", ns, got)
		}
		want := 0
		for _, other := range spaces {
			if len(other) >= len(ns) && slices.Equal(other[:len(ns)], ns) {
				want++
			}
		}
		if got := k.ListMemories(memory.Filter{Namespace: ns}, 2); len(got) != want {
			t.Errorf("below %q there are %d, want %d", ns, len(got), want)
		}
		if got := k.Search(recall.Query{Query: "cabin", Namespace: ns, Limit: 50}).Data; len(got) != want {
			t.Errorf("below %q are found %d, want %d", ns, len(got), want)
		}
	}
	k.Sound()
	f, err := k.Memories.Forget(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		memory.ID([]string{"users", "1"}, "home"))
	if err != nil || !f.Forgotten || f.Key != "home" || !slices.Equal(f.Namespace, []string{"users", "1"}) {
		t.Errorf("forgotten: %+v %v", f, err)
	}
	if left := k.ListMemories(memory.Filter{}, 50); len(left) != len(spaces)-1 {
		t.Errorf("%d are left", len(left))
	}
}

// If the time of an event is known, it is the memory's time: for its place in lists and among the most recent, for time
// bounds, and for the dates of a query.
func TestOccurredAt(t *testing.T) {
	k := enginetest.New(t)
	day := func(s string) *time.Time {
		at, err := time.Parse(time.DateOnly, s)
		if err != nil {
			t.Fatal(err)
		}
		return &at
	}
	k.Remember(memory.Spec{Key: "trip-may", Content: "The trip to the lake.", OccurredAt: day("2023-05-07")})
	k.Advance(time.Minute)
	k.Remember(memory.Spec{Key: "trip-june", Content: "The trip to the lake house.", OccurredAt: day("2023-06-07")})
	k.Remember(memory.Spec{Key: "old", Content: "The trip of 1912.", OccurredAt: day("1912-04-15")})
	k.Remember(memory.Spec{Key: "older", Content: "The trip of 1911.", OccurredAt: day("1911-04-15")})
	k.Remember(memory.Spec{Key: "undated", Content: "A trip."})
	keys := func(f memory.Filter) (out []string) {
		for _, m := range k.ListMemories(f, 1) {
			out = append(out, m.Key)
		}
		return out
	}
	for _, c := range []struct {
		filter memory.Filter
		want   []string
	}{
		{memory.Filter{Since: "2023-01-01"}, []string{"undated", "trip-june", "trip-may"}},
		{memory.Filter{Since: "2023-05-07", Until: "2023-05-07"}, []string{"trip-may"}},
		{memory.Filter{Since: "1911-12-31", Until: "1912-12-31"}, []string{"old"}},
		{memory.Filter{Until: "1911-12-31"}, []string{"older"}},
	} {
		if got := keys(c.filter); !slices.Equal(got, c.want) {
			t.Errorf("%+v lists %q, want %q", c.filter, got, c.want)
		}
		q := recall.Query{Query: "trip", Since: c.filter.Since, Until: c.filter.Until, Limit: 10}
		got := k.Found(q)
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(c.want)); !slices.Equal(got, want) {
			t.Errorf("%+v finds %q, want %q", c.filter, got, want)
		}
	}
	for query, want := range map[string]string{"the trip in May 2023": "trip-may", "trip of 2023-06-07": "trip-june"} {
		hits := k.Search(recall.Query{Query: query}).Data
		if len(hits) == 0 || hits[0].Key != want || hits[0].Why.Date <= 0 {
			t.Errorf("%q finds %+v, want %q by its date", query, hits, want)
		}
	}
	k.Sound()
}

// Metadata and values are returned as stored, are in the history, and are checked against their limits.
func TestMetadataAndValue(t *testing.T) {
	k := enginetest.New(t)
	spec := memory.Spec{Key: "v", Value: json.RawMessage(` {"a": "<b> & \u2028", "n": 1.0, "city":"Bergen"} `),
		Metadata: map[string]json.RawMessage{"lang": json.RawMessage(`"de"`), "gone": json.RawMessage(`null`)}}
	m := k.Remember(spec)
	got, err := k.Memories.Get(k.Context(), k.Admin, ident.DefaultProject, "v")
	if err != nil || !reflect.DeepEqual(m, got) || string(got.Value) != `{"a":"<b> & \u2028","n":1.0,"city":"Bergen"}` ||
		len(got.Metadata) != 1 {
		t.Errorf("answered %+v, then %+v %v", m, got, err)
	}
	if found := k.Found(recall.Query{Query: "bergen"}); len(found) != 1 {
		t.Errorf("the value's words find %q", found)
	}
	k.Remember(memory.Spec{Key: "v", Content: "without"})
	if h := k.History("v", 5); len(h) != 1 || string(h[0].Value) != string(m.Value) || !reflect.DeepEqual(h[0].Metadata, m.Metadata) {
		t.Errorf("the history is %+v", h)
	}
	k.Sound()
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	many := map[string]json.RawMessage{}
	for i := range 65 {
		many[fmt.Sprint(i)] = raw("1")
	}
	far := time.Date(2249, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		spec memory.Spec
		code string
	}{
		"nothing":          {memory.Spec{}, "blank"},
		"no value":         {memory.Spec{Value: raw("null")}, "blank"},
		"blank content":    {memory.Spec{Content: " ", Value: raw("1")}, "blank"},
		"long value":       {memory.Spec{Value: raw(`"` + strings.Repeat("x", 256<<10) + `"`)}, "too_long"},
		"deep metadata":    {memory.Spec{Content: "x", Metadata: map[string]json.RawMessage{"a": raw("[1]")}}, "invalid_value"},
		"operator's name":  {memory.Spec{Content: "x", Metadata: map[string]json.RawMessage{"$gt": raw("1")}}, "invalid_value"},
		"much metadata":    {memory.Spec{Content: "x", Metadata: many}, "too_many"},
		"far future":       {memory.Spec{Content: "x", OccurredAt: &far}, "out_of_range"},
		"blank namespace":  {memory.Spec{Content: "x", Namespace: []string{"a", " "}}, "invalid_value"},
		"long namespace":   {memory.Spec{Content: "x", Namespace: slices.Repeat([]string{strings.Repeat("x", 100)}, 6)}, "too_long"},
		"deep namespace":   {memory.Spec{Content: "x", Namespace: slices.Repeat([]string{"x"}, 17)}, "too_many"},
		"zero byte within": {memory.Spec{Content: "x", Namespace: []string{"a\x00b"}}, "invalid_value"},
	} {
		_, _, err := k.Memories.Store(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, c.spec)
		if codeOf(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
}

func codeOf(err error) string {
	known, _ := errors.AsType[*fault.Error](err)
	if known == nil {
		return ""
	}
	return known.Code
}

// No two tuples have the same full name, and what is not a full name is not accepted as one.
func FuzzFullName(f *testing.F) {
	f.Add("a", "b", "k")
	f.Add("a/b", "", "k!")
	f.Add("%2F", "!", "k")
	f.Fuzz(func(t *testing.T, a, b, id string) {
		ns := []string{a, b}
		if ident.CheckNamespace("namespace", ns) != nil || !ident.ValidID(id) {
			return
		}
		name := ident.FullName(ns, id)
		got, key := ident.SplitFullName(name)
		if !slices.Equal(got, ns) || key != id || !ident.ValidFullName(name) || bytes.ContainsRune([]byte(name), 0) {
			t.Errorf("%q %q: %q is %q %q", ns, id, name, got, key)
		}
	})
}
