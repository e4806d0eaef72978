package memory_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// secretSpec returns a memory in which every field contains the word.
func secretSpec(key, word string) memory.Spec {
	return memory.Spec{Key: key + word, Content: "the " + word + " is here", Tags: []string{word, "other"},
		Source: word, Category: "daily", SessionID: word, Value: json.RawMessage(`["` + word + `"]`),
		Metadata: map[string]json.RawMessage{word: json.RawMessage(`"` + word + `"`)}}
}

// Once a memory is forgotten or expired, or its project deleted, no record contains a word of it or of its earlier
// versions, or of a response to an idempotent request.
func TestForgottenMemoriesLeaveNothing(t *testing.T) {
	const word = "zanzibar"
	for name, end := range map[string]func(k *enginetest.Kit){
		"forget": func(k *enginetest.Kit) {
			for _, key := range []string{"a" + word, "b" + word, "long"} {
				if !k.Forget(key) {
					k.Errorf("%s was not there", key)
				}
			}
		},
		"expiry": func(k *enginetest.Kit) { k.Advance(7*24*time.Hour + time.Minute); k.Drain() },
		"project": func(k *enginetest.Kit) {
			if err := k.DeleteProject(k.Context(), k.Admin, ident.DefaultProject); err != nil {
				k.Fatal(err)
			}
			k.Drain()
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := enginetest.New(t)
			k.Remember(memory.Spec{Key: "kept", Content: "something else"})
			// The index may store the others' words differently, and counts.
			records := func() (n int) {
				for _, it := range k.Everything(ident.DefaultTenant) {
					if it.Key[0] != 'v' && !bytes.HasPrefix(it.Key, []byte("j\x00f")) {
						n++
					}
				}
				return n
			}
			k.Drain() // the daily job's record is made
			before := records()
			for i, key := range []string{"a", "b"} {
				for n := range 3 {
					spec := secretSpec(key, word)
					spec.Content += strings.Repeat(" again", n)
					once := ident.Once{Key: fmt.Sprint(i, n), Body: [32]byte{byte(n)}}
					if _, _, err := k.Memories.Store(t.Context(), k.Admin, once, ident.DefaultProject,
						spec); err != nil {
						t.Fatal(err)
					}
				}
			}
			k.Remember(memory.Spec{Key: "long", Content: strings.Repeat(word+" ", 100_000), Category: "daily"})
			k.Remember(memory.Spec{Key: "long", Content: strings.Repeat(word+" ", 70_000), Category: "daily"})
			k.Drain()
			if !k.Holds(ident.DefaultTenant, word) {
				t.Fatal("the word is nowhere to begin with")
			}
			end(k)
			if k.Holds(ident.DefaultTenant, word) {
				t.Error("the store still holds the word")
			}
			k.Advance(25 * time.Hour) // records of idempotent requests are deleted after a day
			k.Drain()
			if after := records(); name != "project" && after != before {
				t.Errorf("%d records are left, before there were %d", after, before)
			}
		})
	}
}

// The content of an overwritten version is found only in the history, and eventually leaves it.
func TestHistoryIsBounded(t *testing.T) {
	k := enginetest.New(t)
	for i := range 30 {
		k.Remember(memory.Spec{Key: "k", Content: fmt.Sprintf("statement number%d", i)})
	}
	if got := k.History("k", 50); len(got) != 20 || got[0].Version != 29 || got[19].Version != 10 {
		t.Errorf("%d versions are kept", len(got))
	}
	if k.Holds(ident.DefaultTenant, "number8") || !k.Holds(ident.DefaultTenant, "number12") {
		t.Error("the store holds more or less than the versions kept")
	}
	for range 4 {
		k.Remember(memory.Spec{Key: "big", Content: strings.Repeat("x y ", 1<<18)})
	}
	if got := k.History("big", 50); len(got) != 2 || got[1].Version != 2 {
		t.Errorf("%d versions of 1 MiB are kept, want 2 MiB", len(got))
	}
}

// words returns a text of so many bytes whose words are all different.
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
		code string // of the error
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
		"key with a tab":      {memory.Spec{Key: "user\tname", Content: "x"}, "invalid_id"},
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
		"session":             {memory.Spec{Content: "x", SessionID: "no\nway"}, "invalid_id"},
		"core that expires":   {memory.Spec{Content: "x", ExpiresAt: &future}, "core_never_expires"},
		"daily that expires":  {memory.Spec{Content: "x", Category: "daily", ExpiresAt: &future}, ""},
		"expired already":     {memory.Spec{Content: "x", Category: "daily", ExpiresAt: &past}, "out_of_range"},
	} {
		t.Run(name, func(t *testing.T) {
			k := enginetest.New(t)
			before := len(k.Everything(ident.DefaultTenant))
			m, created, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, test.spec)
			if test.code != "" {
				kind := fault.Invalid
				if test.code == "content_too_large" {
					kind = fault.TooLarge
				}
				if e := enginetest.WantKind(t, err, kind); e.Code != test.code {
					t.Errorf("code %q, want %q", e.Code, test.code)
				}
				if after := len(k.Everything(ident.DefaultTenant)); after != before {
					t.Errorf("a refused memory left %d records", after-before)
				}
				return
			}
			if err != nil || !created || m.Content != test.spec.Content {
				t.Fatalf("%v, created %v", err, created)
			}
			got, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, m.Key)
			if err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("read back: %s\nstored: %s\n%v", brief(got), brief(m), err)
			}
		})
	}
}

// A daily memory lives as long as the setting says when it is stored. Once expired it is not visible, swept or not, and
// storing its key again makes a new memory.
func TestDailyMemoriesExpire(t *testing.T) {
	k := enginetest.New(t)
	set := func(days int) {
		patch := fmt.Sprintf(`{"daily_memory_days":%d}`, days)
		if _, err := k.Projects.PatchSettings(t.Context(), k.Admin, ident.DefaultProject, []byte(patch)); err != nil {
			t.Fatal(err)
		}
	}
	set(2)
	k.Remember(memory.Spec{Key: "short", Content: "first", Category: "daily"})
	k.Remember(memory.Spec{Key: "short", Content: "second", Category: "daily"})
	k.Remember(memory.Spec{Key: "promoted", Content: "note", Category: "daily"})
	k.Remember(memory.Spec{Key: "promoted", Content: "fact", Category: "core"})
	set(30)
	k.Remember(memory.Spec{Key: "longer", Content: "note", Category: "daily"})
	k.Advance(48 * time.Hour)
	if got := k.ListMemories(memory.Filter{}, 10); len(got) != 2 {
		t.Errorf("%d memories are seen, want 2", len(got))
	}
	if m := k.Remember(memory.Spec{Key: "short", Content: "third"}); m.Version != 1 || len(k.History("short", 9)) != 0 {
		t.Errorf("stored over an expired one: version %d", m.Version)
	}
	if k.Holds(ident.DefaultTenant, "second") {
		t.Error("the expired memory is still held")
	}
	k.Drain()
	if got := k.ListMemories(memory.Filter{}, 10); len(got) != 3 {
		t.Errorf("%d memories after the sweep, want 3", len(got))
	}
	k.Advance(28 * 24 * time.Hour)
	k.Drain()
	if got := k.ListMemories(memory.Filter{}, 10); len(got) != 2 || got[0].Category != "core" {
		t.Errorf("core memories do not expire: %d left", len(got))
	}
}

// Repeating a request returns the first response while the memory exists, and nothing the client sent is kept for that.
// Once the memory is gone the response says so, whatever is stored under its key now.
func TestMemoriesAreIdempotent(t *testing.T) {
	k := enginetest.New(t)
	once := ident.Once{Key: "once", Body: [32]byte{1}}
	spec := memory.Spec{Content: "marmalade", Tags: []string{"jam"}}
	first, created, err := k.Memories.Store(t.Context(), k.Admin, once, ident.DefaultProject, spec)
	if err != nil || !created {
		t.Fatal(created, err)
	}
	repeat := func() (memory.Memory, bool, error) {
		return k.Memories.Store(t.Context(), k.Admin, once, ident.DefaultProject, spec)
	}
	again, created, err := repeat()
	if err != nil || !created || !reflect.DeepEqual(again, first) {
		t.Errorf("%s, then %s: %v", brief(first), brief(again), err)
	}
	k.Forget(first.Key)
	for _, under := range []string{"", "other"} {
		if under != "" {
			k.Remember(memory.Spec{Key: first.Key, Content: under})
		}
		again, _, err := repeat()
		if e := enginetest.WantKind(t, err, fault.Gone); e.Code != "memory_forgotten" || again.Content != "" {
			t.Errorf("with %q there: %v, %s", under, e, brief(again))
		}
		if strings.Contains(err.Error(), "marmalade") {
			t.Error(err)
		}
	}
	if k.Holds(ident.DefaultTenant, "marmalade") || k.Holds(ident.DefaultTenant, "jam") {
		t.Error("the answer kept for the request holds what was forgotten")
	}
	once.Body[0]++
	_, _, err = k.Memories.Store(t.Context(), k.Admin, once, ident.DefaultProject, memory.Spec{Content: "other"})
	if e := enginetest.WantKind(t, err, fault.Invalid); e.Code != "idempotency_key_reused" {
		t.Error(e)
	}
}

// Writers of one key take turns: each makes a new version, and none is lost.
func TestConcurrentStores(t *testing.T) {
	k := enginetest.New(t)
	var group sync.WaitGroup
	var mu sync.Mutex
	said := map[int]string{}
	for w := range 6 {
		group.Go(func() {
			for n := range 3 {
				m := k.Remember(memory.Spec{Key: "k", Content: fmt.Sprint("writer ", w, " time ", n)})
				mu.Lock()
				said[m.Version] = m.Content
				mu.Unlock()
			}
		})
	}
	group.Wait()
	m, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "k")
	if err != nil || m.Version != 18 || m.Content != said[18] {
		t.Errorf("%s %v, version 18 said %q", brief(m), err, said[18])
	}
	for i, v := range k.History("k", 50) {
		if v.Version != 17-i || v.Content != said[v.Version] {
			t.Errorf("version %d says %q, its writer %q", v.Version, v.Content, said[v.Version])
		}
	}
}

// On a full disk nothing of a memory is stored, existing memories stay, and forgetting still works.
func TestMemoriesOnAFullDisk(t *testing.T) {
	disk := &enginetest.FullDisk{Store: memstore.New()}
	k := enginetest.Open(t, disk)
	k.Remember(memory.Spec{Key: "k", Content: "before"})
	records := len(k.Everything(ident.DefaultTenant))
	disk.Full.Store(true)
	_, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		memory.Spec{Key: "k", Content: "after"})
	if e := enginetest.WantKind(t, err, fault.NoSpace); e.Code != "disk_full" {
		t.Error(e)
	}
	_, err = k.Tools.Call(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		tools.Call{Name: "memory_store", Arguments: []byte(`{"key":"other","content":"x"}`)})
	enginetest.WantKind(t, err, fault.NoSpace) // no model can help it
	if m, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "k"); err != nil || m.Content != "before" {
		t.Errorf("%s %v", brief(m), err)
	}
	if after := len(k.Everything(ident.DefaultTenant)); after != records {
		t.Errorf("%d records, before there were %d", after, records)
	}
}

// After concurrent stores, forgets, expiries and project deletions, no unreferenced records remain.
func TestConcurrentChangesLeaveNothingBehind(t *testing.T) {
	k := enginetest.New(t)
	k.Drain()
	records := len(k.Everything(ident.DefaultTenant))
	for _, projectID := range []string{"one", "two"} {
		if _, _, err := k.Projects.Put(t.Context(), k.Admin, projectID, project.Spec{}); err != nil {
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
					if _, err := k.Memories.Forget(t.Context(), k.Admin, ident.Once{}, project, key); err != nil &&
						!gone(err) {
						t.Error(err)
					}
				case 2:
					k.Advance(time.Hour)
					if _, err := k.Step(t.Context()); err != nil {
						t.Error(err)
					}
				default:
					at := k.Clock().Add(time.Duration(1+r.IntN(5)) * time.Hour)
					spec := memory.Spec{Key: key, Content: strings.Repeat("x", r.IntN(8)/7*600_000) + "y",
						Category: "daily", ExpiresAt: &at}
					_, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, project, spec)
					if e, late := errors.AsType[*fault.Error](err); err != nil && !gone(err) &&
						(!late || e.Code != "out_of_range") {
						t.Error(err)
					}
				}
			}
			if w < 2 {
				if err := k.DeleteProject(t.Context(), k.Admin, []string{"one", "two"}[w]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	k.Advance(10 * time.Hour)
	k.Drain()
	if got := k.ListMemories(memory.Filter{}, 50); len(got) != 0 {
		t.Errorf("%d memories are left", len(got))
	}
	left := slices.DeleteFunc(k.Everything(ident.DefaultTenant), func(it store.Item) bool {
		// An index keeps its counts, its job, and the languages it has seen.
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
