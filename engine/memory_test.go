package engine_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// remember stores a memory.
func (k *kit) remember(spec engine.MemorySpec) engine.Memory {
	k.Helper()
	m, _, err := k.StoreMemory(k.Context(), k.admin, engine.Once{}, engine.DefaultProject, spec)
	if err != nil {
		k.Fatalf("storing %+v: %v", spec, err)
	}
	return m
}

func (k *kit) forget(key string) bool {
	k.Helper()
	f, err := k.ForgetMemory(k.Context(), k.admin, engine.Once{}, engine.DefaultProject, key)
	if err != nil || f.Key != key {
		k.Fatalf("forgetting %q: %+v %v", key, f, err)
	}
	return f.Forgotten
}

// memories lists all that match, in pages of so many.
func (k *kit) memories(f engine.MemoryFilter, limit int) (out []engine.Memory) {
	k.Helper()
	page := engine.Page{Limit: limit}
	for {
		list, err := k.ListMemories(k.Context(), k.admin, engine.DefaultProject, f, page)
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
func (k *kit) history(key string, limit int) (out []engine.MemoryVersion) {
	k.Helper()
	page := engine.Page{Limit: limit}
	for {
		list, err := k.MemoryHistory(k.Context(), k.admin, engine.DefaultProject, key, page)
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

// remembered is what the model knows of a key: its versions, oldest first.
type remembered []engine.Memory

func (r remembered) now() engine.Memory { return r[len(r)-1] }

// world is the model of a project's memories: a map.
type world struct {
	k    *kit
	r    *rand.Rand
	keys map[string]remembered
}

// expire drops what is past its time.
func (w *world) expire() {
	for key, versions := range w.keys {
		if at := versions.now().ExpiresAt; at != nil && !at.After(w.k.clock()) {
			delete(w.keys, key)
		}
	}
}

func (w *world) key() string { return fmt.Sprint("key", w.r.IntN(12)) }

func (w *world) store() {
	spec := engine.MemorySpec{Key: w.key(), Content: fmt.Sprint("word", w.r.IntN(50), " and ", w.r.Int()),
		Category: []string{"core", "daily", "conversation"}[w.r.IntN(3)], Source: []string{"", "chat", "mail"}[w.r.IntN(3)]}
	for range w.r.IntN(3) {
		if tag := fmt.Sprint("tag", w.r.IntN(4)); !slices.Contains(spec.Tags, tag) {
			spec.Tags = append(spec.Tags, tag)
		}
	}
	if w.r.IntN(2) == 0 {
		spec.SessionID = fmt.Sprint("s", w.r.IntN(2))
	}
	if w.r.IntN(8) == 0 {
		spec.Content += strings.Repeat(" long", 110_000+w.r.IntN(90_000))
	}
	if spec.Category != "core" && w.r.IntN(2) == 0 {
		at := w.k.clock().Add(time.Duration(1+w.r.IntN(100)) * time.Hour)
		spec.ExpiresAt = &at
	}
	m := w.k.remember(spec)
	before := w.keys[spec.Key]
	want := engine.Memory{Key: spec.Key, Content: spec.Content, Category: spec.Category, Tags: spec.Tags, Source: spec.Source,
		Importance: 0.5, ExpiresAt: spec.ExpiresAt, Version: len(before) + 1, CreatedAt: w.k.clock(), UpdatedAt: w.k.clock(),
		KeyID: "test"}
	if len(before) > 0 {
		want.CreatedAt = before[0].CreatedAt
	}
	if spec.SessionID == "" && spec.Category == "conversation" {
		spec.SessionID = engine.DefaultSession
	}
	if spec.SessionID != "" {
		want.SessionID = &spec.SessionID
	}
	if spec.Category == "daily" && spec.ExpiresAt == nil {
		at := w.k.clock().AddDate(0, 0, 7)
		want.ExpiresAt = &at
	}
	if want.Tags == nil {
		want.Tags = []string{}
	}
	if !reflect.DeepEqual(m, want) {
		w.k.Fatalf("stored  %s\nwanted %s", brief(m), brief(want))
	}
	w.keys[spec.Key] = append(before, want)
}

func brief(m engine.Memory) string {
	m.Content = m.Content[:min(len(m.Content), 40)]
	return fmt.Sprintf("%+v", m)
}

func (w *world) forget() {
	key := w.key()
	if got, want := w.k.forget(key), w.keys[key] != nil; got != want {
		w.k.Fatalf("forgetting %s says %v, want %v", key, got, want)
	}
	delete(w.keys, key)
}

// check compares one memory, its history, and a listing by a filter.
func (w *world) check() {
	key := w.key()
	versions := w.keys[key]
	m, err := w.k.GetMemory(w.k.Context(), w.k.admin, engine.DefaultProject, key)
	if versions == nil {
		wantKind(w.k, err, engine.NotFound)
	} else {
		if err != nil || !reflect.DeepEqual(m, versions.now()) {
			w.k.Fatalf("%s is\n%s\nwant\n%s\n%v", key, brief(m), brief(versions.now()), err)
		}
		w.checkHistory(key, versions)
	}
	f := engine.MemoryFilter{}
	for range 1 + w.r.IntN(2) {
		switch w.r.IntN(6) {
		case 0:
			f.Category = "daily"
		case 1:
			f.Tags = []string{"tag1"}
		case 2:
			f.Tags = []string{"tag1", "tag2"}
		case 3:
			f.Source = "chat"
		case 4:
			f.SessionID = "s1"
		case 5:
			f.Since = w.k.clock().Add(-time.Duration(w.r.IntN(40)) * time.Hour).Format(time.RFC3339)
			f.Until = w.k.clock().Add(-time.Duration(w.r.IntN(2)) * time.Minute).Format(time.RFC3339)
			if f.Until < f.Since {
				f.Since = ""
			}
		}
	}
	got := w.k.memories(f, 1+w.r.IntN(4))
	want := w.matching(f)
	if len(got) != len(want) {
		w.k.Fatalf("%+v lists %d, want %d", f, len(got), len(want))
	}
	for i, m := range got {
		if !reflect.DeepEqual(m, want[m.Key]) {
			w.k.Fatalf("%+v lists\n%s\nwant\n%s", f, brief(m), brief(want[m.Key]))
		}
		if i > 0 && m.UpdatedAt.After(got[i-1].UpdatedAt) {
			w.k.Fatalf("%+v lists %s behind an older one", f, m.Key)
		}
	}
}

func (w *world) matching(f engine.MemoryFilter) map[string]engine.Memory {
	out := map[string]engine.Memory{}
	for key, versions := range w.keys {
		m := versions.now()
		ok := (f.Category == "" || m.Category == f.Category) && (f.Source == "" || m.Source == f.Source) &&
			(f.SessionID == "" || m.SessionID != nil && *m.SessionID == f.SessionID) &&
			(f.Since == "" || m.UpdatedAt.Format(time.RFC3339) >= f.Since) &&
			(f.Until == "" || m.UpdatedAt.Format(time.RFC3339) <= f.Until)
		for _, tag := range f.Tags {
			ok = ok && slices.Contains(m.Tags, tag)
		}
		if ok {
			out[key] = m
		}
	}
	return out
}

func (w *world) checkHistory(key string, versions remembered) {
	bytes, kept := 0, 0
	var want []engine.Memory
	for _, m := range slices.Backward(versions[:len(versions)-1]) {
		if bytes += len(m.Content); kept == 20 || kept > 0 && bytes > 2<<20 {
			break
		}
		want = append(want, m)
		kept++
	}
	got := w.k.history(key, 1+w.r.IntN(5))
	if len(got) != len(want) {
		w.k.Fatalf("%s has %d versions kept, want %d of %d", key, len(got), len(want), len(versions)-1)
	}
	for i, v := range got {
		next := versions[len(versions)-1-i]
		if !reflect.DeepEqual(v.Memory, want[i]) || !v.Replaced.At.Equal(next.UpdatedAt) || v.Replaced.KeyID != "test" {
			w.k.Fatalf("%s: version kept\n%s %+v\nwant\n%s", key, brief(v.Memory), v.Replaced, brief(want[i]))
		}
	}
}

// Whatever is stored, overwritten, forgotten and expired, in whatever order and across restarts, memories are what a map
// says.
func TestMemoriesAreAMap(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			raw := memstore.New()
			w := &world{k: openKit(t, raw), r: rand.New(rand.NewPCG(seed, 1)), keys: map[string]remembered{}}
			for range 300 {
				switch n := w.r.IntN(20); {
				case n < 11:
					w.store()
				case n < 13:
					w.forget()
				case n < 17:
					w.k.advance(time.Duration(w.r.IntN(4000)) * time.Second)
					w.expire()
				case n < 19:
					w.k.drain()
				default:
					now := w.k.clock()
					w.k = openKit(t, raw)
					w.k.now = now
				}
				w.check()
			}
		})
	}
}

// secretSpec is a memory whose every part bears the word.
func secretSpec(key, word string) engine.MemorySpec {
	return engine.MemorySpec{Key: key + word, Content: "the " + word + " is here", Tags: []string{word, "other"},
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
			if err := k.DeleteProject(k.Context(), k.admin, engine.DefaultProject); err != nil {
				k.Fatal(err)
			}
			k.drain()
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.remember(engine.MemorySpec{Key: "kept", Content: "something else"})
			before := len(k.everything(engine.DefaultTenant))
			for i, key := range []string{"a", "b"} {
				for n := range 3 {
					spec := secretSpec(key, word)
					spec.Content += strings.Repeat(" again", n)
					once := engine.Once{Key: fmt.Sprint(i, n), Body: [32]byte{byte(n)}}
					if _, _, err := k.StoreMemory(t.Context(), k.admin, once, engine.DefaultProject, spec); err != nil {
						t.Fatal(err)
					}
				}
			}
			k.remember(engine.MemorySpec{Key: "long", Content: strings.Repeat(word+" ", 100_000), Category: "daily"})
			k.remember(engine.MemorySpec{Key: "long", Content: strings.Repeat(word+" ", 70_000), Category: "daily"})
			k.drain()
			if !k.holds(engine.DefaultTenant, word) {
				t.Fatal("the word is nowhere to begin with")
			}
			end(k)
			if k.holds(engine.DefaultTenant, word) {
				t.Error("the store still holds the word")
			}
			k.advance(25 * time.Hour) // what idempotent requests leave goes after a day
			k.drain()
			if after := len(k.everything(engine.DefaultTenant)); name != "project" && after != before {
				t.Errorf("%d records are left, before there were %d", after, before)
			}
		})
	}
}

// What a memory said before it was overwritten is found in its history only, and goes out of it in the end.
func TestHistoryIsBounded(t *testing.T) {
	k := newKit(t)
	for i := range 30 {
		k.remember(engine.MemorySpec{Key: "k", Content: fmt.Sprintf("statement number%d", i)})
	}
	if got := k.history("k", 50); len(got) != 20 || got[0].Version != 29 || got[19].Version != 10 {
		t.Errorf("%d versions are kept", len(got))
	}
	if k.holds(engine.DefaultTenant, "number8") || !k.holds(engine.DefaultTenant, "number12") {
		t.Error("the store holds more or less than the versions kept")
	}
}

func TestMemoryLimits(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	half, two, nan := 0.5, 2.0, -0.1
	future := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	past := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	text := func(s string) engine.MemorySpec { return engine.MemorySpec{Key: "k", Content: s} }
	for name, test := range map[string]struct {
		spec engine.MemorySpec
		code string // of the refusal
	}{
		"plain":               {text("x"), ""},
		"emoji":               {text("👩‍👩‍👧‍👦"), ""},
		"cjk":                 {text("用户喜欢深色模式"), ""},
		"right to left":       {text("المستخدم يفضل الوضع الداكن"), ""},
		"control characters":  {text("a\x00b\u202e"), ""},
		"zero width inside":   {text("dark\u200bmode"), ""},
		"1 MiB":               {text(strings.Repeat("ab ", 1<<20/3) + "x"), ""},
		"more than 1 MiB":     {text(strings.Repeat("x", 1<<20+1)), "content_too_large"},
		"empty":               {text(""), "blank"},
		"blank":               {text(" \n\t\u00a0\u3000"), "blank"},
		"zero width alone":    {text("\u200b\u200d\ufeff\u2060\u00ad\u115f\u3164\ufe0f"), "blank"},
		"not UTF-8":           {text("a\xff"), "invalid_utf8"},
		"key with a space":    {engine.MemorySpec{Key: "user name", Content: "x"}, "invalid_id"},
		"category":            {engine.MemorySpec{Content: "x", Category: "Core"}, "invalid_value"},
		"64 tags":             {engine.MemorySpec{Content: "x", Tags: many[:64]}, ""},
		"10,000 tags":         {engine.MemorySpec{Content: "x", Tags: many}, "too_many"},
		"long tag":            {engine.MemorySpec{Content: "x", Tags: []string{strings.Repeat("x", 129)}}, "invalid_value"},
		"blank tag":           {engine.MemorySpec{Content: "x", Tags: []string{"\u200b"}}, "invalid_value"},
		"unicode tag":         {engine.MemorySpec{Content: "x", Tags: []string{"größe", "重要"}}, ""},
		"long source":         {engine.MemorySpec{Content: "x", Source: strings.Repeat("x", 257)}, "invalid_value"},
		"importance":          {engine.MemorySpec{Content: "x", Importance: &half}, ""},
		"importance too high": {engine.MemorySpec{Content: "x", Importance: &two}, "out_of_range"},
		"importance too low":  {engine.MemorySpec{Content: "x", Importance: &nan}, "out_of_range"},
		"session":             {engine.MemorySpec{Content: "x", SessionID: "no way"}, "invalid_id"},
		"core that expires":   {engine.MemorySpec{Content: "x", ExpiresAt: &future}, "core_never_expires"},
		"daily that expires":  {engine.MemorySpec{Content: "x", Category: "daily", ExpiresAt: &future}, ""},
		"expired already":     {engine.MemorySpec{Content: "x", Category: "daily", ExpiresAt: &past}, "out_of_range"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			before := len(k.everything(engine.DefaultTenant))
			m, created, err := k.StoreMemory(t.Context(), k.admin, engine.Once{}, engine.DefaultProject, test.spec)
			if test.code != "" {
				kind := engine.Invalid
				if test.code == "content_too_large" {
					kind = engine.TooLarge
				}
				if e := wantKind(t, err, kind); e.Code != test.code {
					t.Errorf("code %q, want %q", e.Code, test.code)
				}
				if after := len(k.everything(engine.DefaultTenant)); after != before {
					t.Errorf("a refused memory left %d records", after-before)
				}
				return
			}
			if err != nil || !created || m.Content != test.spec.Content {
				t.Fatalf("%v, created %v", err, created)
			}
			got, err := k.GetMemory(t.Context(), k.admin, engine.DefaultProject, m.Key)
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
		if _, err := k.PatchSettings(t.Context(), k.admin, engine.DefaultProject, []byte(patch)); err != nil {
			t.Fatal(err)
		}
	}
	set(2)
	k.remember(engine.MemorySpec{Key: "short", Content: "first", Category: "daily"})
	k.remember(engine.MemorySpec{Key: "short", Content: "second", Category: "daily"})
	k.remember(engine.MemorySpec{Key: "promoted", Content: "note", Category: "daily"})
	k.remember(engine.MemorySpec{Key: "promoted", Content: "fact", Category: "core"})
	set(30)
	k.remember(engine.MemorySpec{Key: "longer", Content: "note", Category: "daily"})
	k.advance(48 * time.Hour)
	if got := k.memories(engine.MemoryFilter{}, 10); len(got) != 2 {
		t.Errorf("%d memories are seen, want 2", len(got))
	}
	if m := k.remember(engine.MemorySpec{Key: "short", Content: "third"}); m.Version != 1 || len(k.history("short", 9)) != 0 {
		t.Errorf("stored over an expired one: version %d", m.Version)
	}
	if k.holds(engine.DefaultTenant, "second") {
		t.Error("the expired memory is still held")
	}
	k.drain()
	if got := k.memories(engine.MemoryFilter{}, 10); len(got) != 3 {
		t.Errorf("%d memories after the sweep, want 3", len(got))
	}
	k.advance(28 * 24 * time.Hour)
	k.drain()
	if got := k.memories(engine.MemoryFilter{}, 10); len(got) != 2 || got[0].Category != "core" {
		t.Errorf("core memories do not expire: %d left", len(got))
	}
}

// The same request again gets the first answer, whatever happened since, and nothing it said is kept for that.
func TestMemoriesAreIdempotent(t *testing.T) {
	k := newKit(t)
	once := engine.Once{Key: "once", Body: [32]byte{1}}
	spec := engine.MemorySpec{Content: "marmalade", Tags: []string{"jam"}}
	first, created, err := k.StoreMemory(t.Context(), k.admin, once, engine.DefaultProject, spec)
	if err != nil || !created {
		t.Fatal(created, err)
	}
	k.forget(first.Key)
	again, created, err := k.StoreMemory(t.Context(), k.admin, once, engine.DefaultProject, spec)
	if err != nil || !created || !reflect.DeepEqual(again, first) {
		t.Errorf("%s, then %s: %v", brief(first), brief(again), err)
	}
	if k.holds(engine.DefaultTenant, "marmalade") || k.holds(engine.DefaultTenant, "jam") {
		t.Error("the answer kept for the request holds what was forgotten")
	}
	once.Body[0]++
	_, _, err = k.StoreMemory(t.Context(), k.admin, once, engine.DefaultProject, engine.MemorySpec{Content: "other"})
	if e := wantKind(t, err, engine.Invalid); e.Code != "idempotency_key_reused" {
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
				m := k.remember(engine.MemorySpec{Key: "k", Content: fmt.Sprint("writer ", w, " time ", n)})
				mu.Lock()
				said[m.Version] = m.Content
				mu.Unlock()
			}
		})
	}
	group.Wait()
	m, err := k.GetMemory(t.Context(), k.admin, engine.DefaultProject, "k")
	if err != nil || m.Version != 18 || m.Content != said[18] {
		t.Errorf("%s %v, version 18 said %q", brief(m), err, said[18])
	}
	for i, v := range k.history("k", 50) {
		if v.Version != 17-i || v.Content != said[v.Version] {
			t.Errorf("version %d says %q, its writer %q", v.Version, v.Content, said[v.Version])
		}
	}
}
