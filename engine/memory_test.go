package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tools"
)

// remember stores a memory.
func (k *kit) remember(spec memory.Spec) memory.Memory {
	k.Helper()
	m, _, err := k.Memories.Store(k.Context(), k.admin, access.Once{}, ident.DefaultProject, spec)
	if err != nil {
		k.Fatalf("storing %+v: %v", spec, err)
	}
	return m
}

func (k *kit) forget(key string) bool {
	k.Helper()
	f, err := k.Memories.Forget(k.Context(), k.admin, access.Once{}, ident.DefaultProject, key)
	if err != nil || f.Key != key {
		k.Fatalf("forgetting %q: %+v %v", key, f, err)
	}
	return f.Forgotten
}

// memories lists all that match, in pages of so many.
func (k *kit) memories(f memory.Filter, limit int) (out []memory.Memory) {
	k.Helper()
	page := records.Page{Limit: limit}
	for {
		list, err := k.Memories.List(k.Context(), k.admin, ident.DefaultProject, f, page)
		if err != nil {
			k.Fatal(err)
		}
		if len(list.Data) > limit || list.HasMore != (list.NextCursor != nil) {
			k.Fatalf("a page of %d has %d, has_more %v", limit, len(list.Data), list.HasMore)
		}
		out = append(out, list.Data...)
		if !list.HasMore {
			return out
		}
		page.Cursor = *list.NextCursor
	}
}

// history is all that a memory was before, in pages of so many.
func (k *kit) history(key string, limit int) (out []memory.Version) {
	k.Helper()
	page := records.Page{Limit: limit}
	for {
		list, err := k.Memories.History(k.Context(), k.admin, ident.DefaultProject, key, page)
		if err != nil {
			k.Fatal(err)
		}
		out = append(out, list.Data...)
		if !list.HasMore {
			return out
		}
		page.Cursor = *list.NextCursor
	}
}

// secretSpec is a memory whose every part bears the word.
func secretSpec(key, word string) memory.Spec {
	return memory.Spec{Key: key + word, Content: "the " + word + " is here", Tags: []string{word, "other"},
		Source: word, Category: "daily", SessionID: word}
}

// Once a memory is forgotten or expired, or its project deleted, no record holds a word of it, nor of what it was
// before, nor what an idempotent request was answered.
func TestForgottenMemoriesLeaveNothing(t *testing.T) {
	const word = "zanzibar"
	for name, end := range map[string]func(k *kit){
		"forget": func(k *kit) {
			for _, key := range []string{"a" + word, "b" + word, "long"} {
				if !k.forget(key) {
					k.Errorf("%s was not there", key)
				}
			}
		},
		"expiry": func(k *kit) { k.advance(7*24*time.Hour + time.Minute); k.drain() },
		"project": func(k *kit) {
			if err := k.DeleteProject(k.Context(), k.admin, ident.DefaultProject); err != nil {
				k.Fatal(err)
			}
			k.drain()
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.remember(memory.Spec{Key: "kept", Content: "something else"})
			// The index may keep the others' words in another shape, and counts.
			records := func() (n int) {
				for _, it := range k.everything(ident.DefaultTenant) {
					if it.Key[0] != 'v' && !bytes.HasPrefix(it.Key, []byte("j\x00f")) {
						n++
					}
				}
				return n
			}
			k.drain() // the daily job's record is made
			before := records()
			for i, key := range []string{"a", "b"} {
				for n := range 3 {
					spec := secretSpec(key, word)
					spec.Content += strings.Repeat(" again", n)
					once := access.Once{Key: fmt.Sprint(i, n), Body: [32]byte{byte(n)}}
					if _, _, err := k.Memories.Store(t.Context(), k.admin, once, ident.DefaultProject, spec); err != nil {
						t.Fatal(err)
					}
				}
			}
			k.remember(memory.Spec{Key: "long", Content: strings.Repeat(word+" ", 100_000), Category: "daily"})
			k.remember(memory.Spec{Key: "long", Content: strings.Repeat(word+" ", 70_000), Category: "daily"})
			k.drain()
			if !k.holds(ident.DefaultTenant, word) {
				t.Fatal("the word is nowhere to begin with")
			}
			end(k)
			if k.holds(ident.DefaultTenant, word) {
				t.Error("the store still holds the word")
			}
			k.advance(25 * time.Hour) // what idempotent requests leave goes after a day
			k.drain()
			if after := records(); name != "project" && after != before {
				t.Errorf("%d records are left, before there were %d", after, before)
			}
		})
	}
}

// What a memory said before it was overwritten is found in its history only, and goes out of it in the end.
func TestHistoryIsBounded(t *testing.T) {
	k := newKit(t)
	for i := range 30 {
		k.remember(memory.Spec{Key: "k", Content: fmt.Sprintf("statement number%d", i)})
	}
	if got := k.history("k", 50); len(got) != 20 || got[0].Version != 29 || got[19].Version != 10 {
		t.Errorf("%d versions are kept", len(got))
	}
	if k.holds(ident.DefaultTenant, "number8") || !k.holds(ident.DefaultTenant, "number12") {
		t.Error("the store holds more or less than the versions kept")
	}
	for range 4 {
		k.remember(memory.Spec{Key: "big", Content: strings.Repeat("x y ", 1<<18)})
	}
	if got := k.history("big", 50); len(got) != 2 || got[1].Version != 2 {
		t.Errorf("%d versions of 1 MiB are kept, want 2 MiB", len(got))
	}
}

// words is a text of so many bytes whose words are all different.
func words(bytes int) string {
	var b strings.Builder
	for i := 0; b.Len()+8 < bytes; i++ {
		fmt.Fprintf(&b, "w%x ", i)
	}
	return b.String()
}

func TestMemoryLimits(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	half, two, nan := 0.5, 2.0, -0.1
	future := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	past := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	text := func(s string) memory.Spec { return memory.Spec{Key: "k", Content: s} }
	for name, test := range map[string]struct {
		spec memory.Spec
		code string // of the refusal
	}{
		"plain":               {text("x"), ""},
		"emoji":               {text("👩‍👩‍👧‍👦"), ""},
		"cjk":                 {text("用户喜欢深色模式"), ""},
		"right to left":       {text("المستخدم يفضل الوضع الداكن"), ""},
		"control characters":  {text("a\x00b\u202e"), ""},
		"zero width inside":   {text("dark\u200bmode"), ""},
		"1 MiB":               {text(strings.Repeat("ab ", 1<<20/3) + "x"), ""},
		"1 MiB of words":      {text(words(1 << 20)), ""},
		"more than 1 MiB":     {text(strings.Repeat("x", 1<<20+1)), "content_too_large"},
		"empty":               {text(""), "blank"},
		"blank":               {text(" \n\t\u00a0\u3000"), "blank"},
		"zero width alone":    {text("\u200b\u200d\ufeff\u2060\u00ad\u115f\u3164\ufe0f"), "blank"},
		"not UTF-8":           {text("a\xff"), "invalid_utf8"},
		"key with a space":    {memory.Spec{Key: "user name", Content: "x"}, "invalid_id"},
		"category":            {memory.Spec{Content: "x", Category: "Core"}, "invalid_value"},
		"64 tags":             {memory.Spec{Content: "x", Tags: many[:64]}, ""},
		"10,000 tags":         {memory.Spec{Content: "x", Tags: many}, "too_many"},
		"long tag":            {memory.Spec{Content: "x", Tags: []string{strings.Repeat("x", 129)}}, "invalid_value"},
		"blank tag":           {memory.Spec{Content: "x", Tags: []string{"\u200b"}}, "invalid_value"},
		"unicode tag":         {memory.Spec{Content: "x", Tags: []string{"größe", "重要"}}, ""},
		"long source":         {memory.Spec{Content: "x", Source: strings.Repeat("x", 257)}, "invalid_value"},
		"importance":          {memory.Spec{Content: "x", Importance: &half}, ""},
		"importance too high": {memory.Spec{Content: "x", Importance: &two}, "out_of_range"},
		"importance too low":  {memory.Spec{Content: "x", Importance: &nan}, "out_of_range"},
		"session":             {memory.Spec{Content: "x", SessionID: "no way"}, "invalid_id"},
		"core that expires":   {memory.Spec{Content: "x", ExpiresAt: &future}, "core_never_expires"},
		"daily that expires":  {memory.Spec{Content: "x", Category: "daily", ExpiresAt: &future}, ""},
		"expired already":     {memory.Spec{Content: "x", Category: "daily", ExpiresAt: &past}, "out_of_range"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			before := len(k.everything(ident.DefaultTenant))
			m, created, err := k.Memories.Store(t.Context(), k.admin, access.Once{}, ident.DefaultProject, test.spec)
			if test.code != "" {
				kind := fault.Invalid
				if test.code == "content_too_large" {
					kind = fault.TooLarge
				}
				if e := wantKind(t, err, kind); e.Code != test.code {
					t.Errorf("code %q, want %q", e.Code, test.code)
				}
				if after := len(k.everything(ident.DefaultTenant)); after != before {
					t.Errorf("a refused memory left %d records", after-before)
				}
				return
			}
			if err != nil || !created || m.Content != test.spec.Content {
				t.Fatalf("%v, created %v", err, created)
			}
			got, err := k.Memories.Get(t.Context(), k.admin, ident.DefaultProject, m.Key)
			if err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("read back: %s\nstored: %s\n%v", brief(got), brief(m), err)
			}
		})
	}
}

// A daily memory lives as long as the setting says when it is stored; past its time it is nowhere seen, swept or not,
// and storing its key again is a new memory.
func TestDailyMemoriesExpire(t *testing.T) {
	k := newKit(t)
	set := func(days int) {
		patch := fmt.Sprintf(`{"daily_memory_days":%d}`, days)
		if _, err := k.Projects.PatchSettings(t.Context(), k.admin, ident.DefaultProject, []byte(patch)); err != nil {
			t.Fatal(err)
		}
	}
	set(2)
	k.remember(memory.Spec{Key: "short", Content: "first", Category: "daily"})
	k.remember(memory.Spec{Key: "short", Content: "second", Category: "daily"})
	k.remember(memory.Spec{Key: "promoted", Content: "note", Category: "daily"})
	k.remember(memory.Spec{Key: "promoted", Content: "fact", Category: "core"})
	set(30)
	k.remember(memory.Spec{Key: "longer", Content: "note", Category: "daily"})
	k.advance(48 * time.Hour)
	if got := k.memories(memory.Filter{}, 10); len(got) != 2 {
		t.Errorf("%d memories are seen, want 2", len(got))
	}
	if m := k.remember(memory.Spec{Key: "short", Content: "third"}); m.Version != 1 || len(k.history("short", 9)) != 0 {
		t.Errorf("stored over an expired one: version %d", m.Version)
	}
	if k.holds(ident.DefaultTenant, "second") {
		t.Error("the expired memory is still held")
	}
	k.drain()
	if got := k.memories(memory.Filter{}, 10); len(got) != 3 {
		t.Errorf("%d memories after the sweep, want 3", len(got))
	}
	k.advance(28 * 24 * time.Hour)
	k.drain()
	if got := k.memories(memory.Filter{}, 10); len(got) != 2 || got[0].Category != "core" {
		t.Errorf("core memories do not expire: %d left", len(got))
	}
}

// The same request again gets the first answer, whatever happened since, and nothing it said is kept for that.
func TestMemoriesAreIdempotent(t *testing.T) {
	k := newKit(t)
	once := access.Once{Key: "once", Body: [32]byte{1}}
	spec := memory.Spec{Content: "marmalade", Tags: []string{"jam"}}
	first, created, err := k.Memories.Store(t.Context(), k.admin, once, ident.DefaultProject, spec)
	if err != nil || !created {
		t.Fatal(created, err)
	}
	k.forget(first.Key)
	again, created, err := k.Memories.Store(t.Context(), k.admin, once, ident.DefaultProject, spec)
	if err != nil || !created || !reflect.DeepEqual(again, first) {
		t.Errorf("%s, then %s: %v", brief(first), brief(again), err)
	}
	if k.holds(ident.DefaultTenant, "marmalade") || k.holds(ident.DefaultTenant, "jam") {
		t.Error("the answer kept for the request holds what was forgotten")
	}
	once.Body[0]++
	_, _, err = k.Memories.Store(t.Context(), k.admin, once, ident.DefaultProject, memory.Spec{Content: "other"})
	if e := wantKind(t, err, fault.Invalid); e.Code != "idempotency_key_reused" {
		t.Error(e)
	}
}

// Writers of one key take turns: each gets a version of its own, and none is lost.
func TestConcurrentStores(t *testing.T) {
	k := newKit(t)
	var group sync.WaitGroup
	var mu sync.Mutex
	said := map[int]string{}
	for w := range 6 {
		group.Go(func() {
			for n := range 3 {
				m := k.remember(memory.Spec{Key: "k", Content: fmt.Sprint("writer ", w, " time ", n)})
				mu.Lock()
				said[m.Version] = m.Content
				mu.Unlock()
			}
		})
	}
	group.Wait()
	m, err := k.Memories.Get(t.Context(), k.admin, ident.DefaultProject, "k")
	if err != nil || m.Version != 18 || m.Content != said[18] {
		t.Errorf("%s %v, version 18 said %q", brief(m), err, said[18])
	}
	for i, v := range k.history("k", 50) {
		if v.Version != 17-i || v.Content != said[v.Version] {
			t.Errorf("version %d says %q, its writer %q", v.Version, v.Content, said[v.Version])
		}
	}
}

// On a full disk nothing of a memory is stored, what was there stays, and forgetting goes on.
func TestMemoriesOnAFullDisk(t *testing.T) {
	disk := &fullDisk{Store: memstore.New()}
	k := openKit(t, disk)
	k.remember(memory.Spec{Key: "k", Content: "before"})
	records := len(k.everything(ident.DefaultTenant))
	disk.full.Store(true)
	_, _, err := k.Memories.Store(t.Context(), k.admin, access.Once{}, ident.DefaultProject,
		memory.Spec{Key: "k", Content: "after"})
	if e := wantKind(t, err, fault.NoSpace); e.Code != "disk_full" {
		t.Error(e)
	}
	_, err = k.Tools.Call(t.Context(), k.admin, access.Once{}, ident.DefaultProject,
		tools.Call{Name: "memory_store", Arguments: []byte(`{"key":"other","content":"x"}`)})
	wantKind(t, err, fault.NoSpace) // no model can help it
	if m, err := k.Memories.Get(t.Context(), k.admin, ident.DefaultProject, "k"); err != nil || m.Content != "before" {
		t.Errorf("%s %v", brief(m), err)
	}
	if after := len(k.everything(ident.DefaultTenant)); after != records {
		t.Errorf("%d records, before there were %d", after, records)
	}
}

// Whatever stores, forgets, expires and deletes projects at the same time: in the end nothing is left that nobody
// knows of.
func TestConcurrentChangesLeaveNothingBehind(t *testing.T) {
	k := newKit(t)
	k.drain()
	records := len(k.everything(ident.DefaultTenant))
	for _, projectID := range []string{"one", "two"} {
		if _, _, err := k.Projects.Put(t.Context(), k.admin, projectID, project.Spec{}); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	gone := func(err error) bool {
		e, ok := errors.AsType[*fault.Error](err)
		return ok && e.Kind == fault.NotFound
	}
	for w := range 4 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			for range 150 {
				project, key := []string{"default", "one", "two"}[r.IntN(3)], fmt.Sprint("k", r.IntN(3))
				switch r.IntN(8) {
				case 0, 1:
					if _, err := k.Memories.Forget(t.Context(), k.admin, access.Once{}, project, key); err != nil && !gone(err) {
						t.Error(err)
					}
				case 2:
					k.advance(time.Hour)
					if _, err := k.Step(t.Context()); err != nil {
						t.Error(err)
					}
				default:
					at := k.clock().Add(time.Duration(1+r.IntN(5)) * time.Hour)
					spec := memory.Spec{Key: key, Content: strings.Repeat("x", r.IntN(8)/7*600_000) + "y", Category: "daily", ExpiresAt: &at}
					_, _, err := k.Memories.Store(t.Context(), k.admin, access.Once{}, project, spec)
					if e, late := errors.AsType[*fault.Error](err); err != nil && !gone(err) && (!late || e.Code != "out_of_range") {
						t.Error(err)
					}
				}
			}
			if w < 2 {
				if err := k.DeleteProject(t.Context(), k.admin, []string{"one", "two"}[w]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	k.advance(10 * time.Hour)
	k.drain()
	if got := k.memories(memory.Filter{}, 50); len(got) != 0 {
		t.Errorf("%d memories are left", len(got))
	}
	left := slices.DeleteFunc(k.everything(ident.DefaultTenant), func(it store.Item) bool {
		// An index keeps its counts, its job, and which languages it has seen.
		return len(it.Key) > 11 && it.Key[0] == 'v' && strings.IndexByte("lsw", it.Key[11]) >= 0 ||
			strings.HasPrefix(string(it.Key), "j\x00f")
	})
	if len(left) != records {
		for _, it := range left {
			t.Logf("%q", it.Key)
		}
		t.Errorf("%d records are left, before there were %d", len(left), records)
	}
}
