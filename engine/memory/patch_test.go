package memory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// patched applies a merge patch to the memory k.
func patched(k *enginetest.Kit, patch string, expected memory.Precondition) (memory.Memory, error) {
	k.Helper()
	var p memory.Patch
	if err := json.Unmarshal([]byte(patch), &p); err != nil {
		k.Fatal(err)
	}
	return k.Memories.Patch(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "k", p, expected)
}

// A patch changes what it names and nothing else. One that changes nothing makes no version.
func TestPatch(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	start := memory.Spec{Key: "k", Content: "one", Category: "daily", Tags: []string{"a"}, Source: "s", SessionID: "t",
		ExpiresAt: &at, OccurredAt: &at, Metadata: map[string]json.RawMessage{"x": json.RawMessage(`1`), "y": json.RawMessage(`2`)},
		Value: json.RawMessage(`{"v":{"a":1,"b":2}}`)}
	said := func(m memory.Memory) string {
		raw, err := json.Marshal(m.Spec())
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for patch, want := range map[string]struct {
		change func(s *memory.Spec)
		code   string
	}{
		`{"content":"two"}`:                                       {change: func(s *memory.Spec) { s.Content = "two" }},
		`{"tags":null,"source":null}`:                             {change: func(s *memory.Spec) { s.Tags, s.Source = []string{}, "" }},
		`{"session_id":null}`:                                     {change: func(s *memory.Spec) { s.SessionID = "" }},
		`{"occurred_at":null,"value":null}`:                       {change: func(s *memory.Spec) { s.OccurredAt, s.Value = nil, nil }},
		`{"metadata":{"x":null,"z":true}}`:                        {change: func(s *memory.Spec) { delete(s.Metadata, "x"); s.Metadata["z"] = json.RawMessage(`true`) }},
		`{"metadata":null}`:                                       {change: func(s *memory.Spec) { s.Metadata = nil }},
		`{"value":{"v":{"b":null,"c":3}}}`:                        {change: func(s *memory.Spec) { s.Value = json.RawMessage(`{"v":{"a":1,"c":3}}`) }},
		`{"value":7}`:                                             {change: func(s *memory.Spec) { s.Value = json.RawMessage(`7`) }},
		`{"category":"core"}`:                                     {change: func(s *memory.Spec) { s.Category, s.ExpiresAt = "core", nil }},
		`{"category":"conversation"}`:                             {change: func(s *memory.Spec) { s.Category = "conversation" }},
		`{"content":null}`:                                        {change: func(s *memory.Spec) { s.Content = "v: a: 1\nb: 2" }},
		`{"content":null,"value":null}`:                           {code: "blank"},
		`{"category":null}`:                                       {code: "invalid_value"},
		`{"importance":null}`:                                     {code: "invalid_value"},
		`{"key":"other"}`:                                         {code: "unknown_field"},
		`{"namespace":["a"]}`:                                     {code: "unknown_field"},
		`{"category":"core","expires_at":"2031-01-01T00:00:00Z"}`: {code: "core_never_expires"},
		`{"expires_at":"2001-01-01T00:00:00Z"}`:                   {code: "out_of_range"},
		`{"tags":"a"}`:                                            {code: "wrong_type"},
		`{"content":"one","tags":["a"]}`:                          {},
		`{}`:                                                      {},
	} {
		t.Run(patch, func(t *testing.T) {
			k := enginetest.New(t)
			before := k.Remember(start)
			k.Advance(time.Minute)
			m, err := patched(k, patch, memory.Precondition{})
			if want.code != "" {
				enginetest.RefusedWith(t, err, fault.Invalid, want.code)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wanted, version, when := before.Spec(), 1, before.UpdatedAt
			wanted.Metadata = map[string]json.RawMessage{"x": json.RawMessage(`1`), "y": json.RawMessage(`2`)}
			if want.change != nil {
				want.change(&wanted)
				version, when = 2, k.Clock()
			}
			raw, err := json.Marshal(wanted)
			if err != nil || said(m) != string(raw) || m.Version != version || !m.UpdatedAt.Equal(when) {
				t.Errorf("version %d of %s says\n%s, want\n%s %v", m.Version, m.UpdatedAt, said(m), raw, err)
			}
			now, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "k")
			if err != nil || said(now) != said(m) || now.ETag != m.ETag || (now.ETag == before.ETag) != (version == 1) {
				t.Errorf("stored is %+v, answered %+v: %v", now, m, err)
			}
			k.Sound()
		})
	}
	k := enginetest.New(t)
	_, err := patched(k, `{"content":"x"}`, memory.Precondition{})
	enginetest.WantKind(t, err, fault.NotFound)
}

// A memory that is stored with only a value keeps a content that says the value.
func TestPatchedValueIsTheContent(t *testing.T) {
	k := enginetest.New(t)
	k.Remember(memory.Spec{Key: "k", Value: json.RawMessage(`{"lang":"German"}`)})
	m, err := patched(k, `{"value":{"lang":"Dutch"}}`, memory.Precondition{})
	if err != nil || !strings.Contains(m.Content, "Dutch") || strings.Contains(m.Content, "German") {
		t.Errorf("the content is %q: %v", m.Content, err)
	}
}

// Each precondition is checked in the commit. If it fails, the error says what there is now, and nothing changes.
func TestPreconditions(t *testing.T) {
	k := enginetest.New(t)
	m := k.Remember(memory.Spec{Key: "k", Content: "one"})
	number := func(n int) *int { return &n }
	for _, c := range []struct {
		expected    memory.Precondition
		there, free bool // whether it holds for the memory, and without a memory
	}{
		{memory.Precondition{}, true, true},
		{memory.Precondition{Match: []string{m.ETag}}, true, false},
		{memory.Precondition{Match: []string{`"9-00000000"`, m.ETag}}, true, false},
		{memory.Precondition{Match: []string{"*"}}, true, false},
		{memory.Precondition{Match: []string{"W/" + m.ETag}}, false, false},
		{memory.Precondition{Match: []string{`"1"`}}, false, false},
		{memory.Precondition{NoneMatch: []string{"*"}}, false, true},
		{memory.Precondition{NoneMatch: []string{m.ETag}}, false, true},
		{memory.Precondition{Version: number(1)}, true, false},
		{memory.Precondition{Version: number(2)}, false, false},
		{memory.Precondition{Version: number(0)}, false, true},
		{memory.Precondition{Match: []string{m.ETag}, NoneMatch: []string{"*"}}, false, false},
	} {
		_, err := patched(k, `{}`, c.expected)
		if known, _ := errors.AsType[*fault.Error](err); (err == nil) != c.there || err != nil && (known.Kind != fault.Precondition ||
			known.Code != "version_mismatch" || *known.Current != fault.Current{Version: 1, ETag: m.ETag}) {
			t.Errorf("%+v for the memory: %v", c.expected, err)
		}
		_, err = k.Memories.Patch(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "free", nil, c.expected)
		if known, _ := errors.AsType[*fault.Error](err); known == nil || (known.Code == "not_found") != c.free ||
			!c.free && (known.Code != "version_mismatch" || *known.Current != fault.Current{}) {
			t.Errorf("%+v where there is none: %v", c.expected, err)
		}
	}
	stale := memory.Precondition{Version: number(2)}
	_, err := k.Memories.ForgetIf(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "k", stale)
	enginetest.RefusedWith(t, err, fault.Precondition, "version_mismatch")
	_, _, err = k.Memories.StoreIf(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		memory.Spec{Content: "x"}, memory.Precondition{Match: []string{"*"}})
	enginetest.RefusedWith(t, err, fault.Invalid, "required")
	done, err := k.Memories.ForgetIf(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "k",
		memory.Precondition{Match: []string{m.ETag}})
	if err != nil || !done.Forgotten {
		t.Fatalf("%+v: %v", done, err)
	}
	if again := k.Remember(memory.Spec{Key: "k", Content: "one"}); again.Version != 1 || again.ETag == m.ETag {
		t.Errorf("after forgetting, %q stands for another memory", again.ETag)
	}
	k.Advance(24 * time.Hour)
	k.Remember(memory.Spec{Key: "short", Content: "x", Category: "daily"})
	k.Advance(8 * 24 * time.Hour)
	if _, _, err := k.Memories.StoreIf(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		memory.Spec{Key: "short", Content: "y"}, memory.Precondition{NoneMatch: []string{"*"}}); err != nil {
		t.Errorf("an expired memory counts as there: %v", err)
	}
}

// Writers that read, add and conditionally store lose nothing.
func TestWritersLoseNothing(t *testing.T) {
	const clients, times = 5, 10
	k := enginetest.New(t)
	k.Remember(memory.Spec{Key: "k", Content: "0"})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for done := 0; done < times; {
				m, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "k")
				if err != nil {
					t.Error(err)
					return
				}
				n := 0
				fmt.Sscan(m.Content, &n)
				_, _, err = k.Memories.StoreIf(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
					memory.Spec{Key: "k", Content: fmt.Sprint(n + 1)}, memory.Precondition{Match: []string{m.ETag}})
				if known, _ := errors.AsType[*fault.Error](err); known != nil && known.Code == "version_mismatch" {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				done++
			}
		})
	}
	all.Wait()
	if m, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "k"); err != nil || m.Content != "50" {
		t.Errorf("%s: %v", m.Content, err)
	}
}

// Paging in the order of keys shows every memory once, whatever is overwritten in the meantime. Paging in the order of
// time shows every one at least once.
func TestPagingIsStable(t *testing.T) {
	for _, order := range []memory.Order{memory.ByKey, memory.Recent} {
		k := enginetest.New(t)
		for i := range 230 {
			k.Advance(time.Second)
			spec := memory.Spec{Key: fmt.Sprintf("k%03d", i), Content: "x", Namespace: [][]string{nil, {"a"}, {"a", "b"}}[i%3]}
			if i%7 == 0 {
				at := k.Clock().Add(-time.Hour)
				spec.OccurredAt = &at
			}
			k.Remember(spec)
		}
		seen := map[string]int{}
		page := records.Page{Limit: 20}
		for n := 0; ; n++ {
			list, err := k.Memories.List(t.Context(), k.Admin, ident.DefaultProject, memory.Filter{}, order, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range list.Data {
				seen[m.ID()]++
			}
			if !list.HasMore {
				break
			}
			page.Cursor = *list.NextCursor
			k.Advance(time.Second)
			if n < 8 { // one that comes last in this order and is not shown yet
				i := 226 - 3*n
				if order == memory.Recent {
					i = 3 * n
				}
				now := k.Clock()
				spec := memory.Spec{Key: fmt.Sprintf("k%03d", i), Content: "again", Namespace: [][]string{nil, {"a"}, {"a", "b"}}[i%3]}
				if i%2 == 0 {
					spec.OccurredAt = &now
				}
				k.Remember(spec)
			}
		}
		for id, n := range seen {
			if order == memory.ByKey && n != 1 || n > 2 {
				t.Errorf("%s: %s is shown %d times", order, id, n)
			}
		}
		if len(seen) != 230 {
			t.Errorf("%s: %d of 230 are shown", order, len(seen))
		}
	}
}

// A cursor is rejected in any list but its own.
func TestCursorsAreChecked(t *testing.T) {
	k := enginetest.New(t)
	for i := range 5 {
		k.Remember(memory.Spec{Key: fmt.Sprint("k", i), Content: "x", Namespace: []string{"a"}})
	}
	list := func(f memory.Filter, order memory.Order, cursor string) (*string, error) {
		l, err := k.Memories.List(t.Context(), k.Admin, ident.DefaultProject, f, order, records.Page{Limit: 2, Cursor: cursor})
		return l.NextCursor, err
	}
	byKey, err := list(memory.Filter{}, memory.ByKey, "")
	if err != nil {
		t.Fatal(err)
	}
	recent, err := list(memory.Filter{}, memory.Recent, "")
	if err != nil {
		t.Fatal(err)
	}
	in, err := list(memory.Filter{Namespace: []string{"a"}}, memory.ByKey, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, cursor := range []string{"AAAA", "A", "*", *recent, *in, strings.Repeat("A", 2000)} {
		_, err := list(memory.Filter{}, memory.ByKey, cursor)
		enginetest.RefusedWith(t, err, fault.Invalid, "invalid_cursor")
	}
	_, err = list(memory.Filter{}, memory.Recent, *byKey)
	enginetest.RefusedWith(t, err, fault.Invalid, "invalid_cursor")
	_, err = k.Memories.Namespaces(t.Context(), k.Admin, ident.DefaultProject, nil, records.Page{Cursor: *byKey})
	enginetest.RefusedWith(t, err, fault.Invalid, "invalid_cursor")
}
