package memory_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// remembered is what the model knows about a key: its versions, oldest first.
type remembered []memory.Memory

func (r remembered) now() memory.Memory { return r[len(r)-1] }

// world is the model of a project's memories: a map.
type world struct {
	k    *enginetest.Kit
	r    *rand.Rand
	keys map[string]remembered
	tags map[string]bool // the key and ETag of every version so far
}

// expire deletes expired memories.
func (w *world) expire() {
	for key, versions := range w.keys {
		if at := versions.now().ExpiresAt; at != nil && !at.After(w.k.Clock()) {
			delete(w.keys, key)
		}
	}
}

func (w *world) key() string { return fmt.Sprint("key", w.r.IntN(12)) }

func (w *world) store() {
	spec := memory.Spec{Key: w.key(), Content: fmt.Sprint("word", w.r.IntN(50), " and ", w.r.Int()),
		Category: []string{"core", "daily", "conversation"}[w.r.IntN(3)],
		Source:   []string{"", "chat", "mail"}[w.r.IntN(3)]}
	for range w.r.IntN(3) {
		if tag := fmt.Sprint("tag", w.r.IntN(4)); !slices.Contains(spec.Tags, tag) {
			spec.Tags = append(spec.Tags, tag)
		}
	}
	if w.r.IntN(2) == 0 {
		spec.SessionID = fmt.Sprint("s", w.r.IntN(2))
	}
	if w.r.IntN(40) == 0 {
		spec.Content += strings.Repeat(" long", 110_000+w.r.IntN(90_000))
	}
	if spec.Category != "core" && w.r.IntN(2) == 0 {
		at := w.k.Clock().Add(time.Duration(1+w.r.IntN(100)) * time.Hour)
		spec.ExpiresAt = &at
	}
	m := w.k.Remember(spec)
	before := w.keys[spec.Key]
	want := memory.Memory{Key: spec.Key, Content: spec.Content, Category: spec.Category, Tags: spec.Tags,
		Source: spec.Source, Importance: 0.5, ExpiresAt: spec.ExpiresAt, Version: len(before) + 1,
		CreatedAt: w.k.Clock(), UpdatedAt: w.k.Clock(), KeyID: "test", Trust: memory.TrustModel,
		Provenance: &memory.Provenance{Origin: memory.OriginAPI}}
	if len(before) > 0 {
		want.CreatedAt = before[0].CreatedAt
	}
	if spec.SessionID == "" && spec.Category == "conversation" {
		spec.SessionID = ident.DefaultSession
	}
	if spec.SessionID != "" {
		want.SessionID = &spec.SessionID
	}
	if spec.Category == "daily" && spec.ExpiresAt == nil {
		at := w.k.Clock().AddDate(0, 0, 7)
		want.ExpiresAt = &at
	}
	if want.Tags == nil {
		want.Tags = []string{}
	}
	want.ETag = m.ETag
	if m.ETag == "" || w.tags[m.Key+m.ETag] {
		w.k.Fatalf("the ETag %q is empty or was another version's", m.ETag)
	}
	w.tags[m.Key+m.ETag] = true
	if !reflect.DeepEqual(m, want) {
		w.k.Fatalf("stored  %s\nwanted %s", brief(m), brief(want))
	}
	w.keys[spec.Key] = append(before, want)
}

func brief(m memory.Memory) string {
	m.Content = m.Content[:min(len(m.Content), 40)]
	return fmt.Sprintf("%+v", m)
}

func (w *world) forget() {
	key := w.key()
	if got, want := w.k.Forget(key), w.keys[key] != nil; got != want {
		w.k.Fatalf("forgetting %s says %v, want %v", key, got, want)
	}
	delete(w.keys, key)
}

// check compares one memory, its history, and a listing by a filter.
func (w *world) check() {
	key := w.key()
	versions := w.keys[key]
	m, err := w.k.Memories.Get(w.k.Context(), w.k.Admin, ident.DefaultProject, key)
	if versions == nil {
		enginetest.WantKind(w.k, err, fault.NotFound)
	} else {
		if err != nil || !reflect.DeepEqual(m, versions.now()) {
			w.k.Fatalf("%s is\n%s\nwant\n%s\n%v", key, brief(m), brief(versions.now()), err)
		}
		w.checkHistory(key, versions)
	}
	f := memory.Filter{}
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
			f.Since = w.k.Clock().Add(-time.Duration(w.r.IntN(40)) * time.Hour).Format(time.RFC3339)
			f.Until = w.k.Clock().Add(-time.Duration(w.r.IntN(2)) * time.Minute).Format(time.RFC3339)
			if f.Until < f.Since {
				f.Since = ""
			}
		}
	}
	got := w.k.ListMemories(f, 1+w.r.IntN(4))
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

func (w *world) matching(f memory.Filter) map[string]memory.Memory {
	out := map[string]memory.Memory{}
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
	var want []memory.Memory
	for _, m := range slices.Backward(versions[:len(versions)-1]) {
		if bytes += len(m.Content); kept == 20 || kept > 0 && bytes > 2<<20 {
			break
		}
		m.ETag = ""
		want = append(want, m)
		kept++
	}
	got := w.k.History(key, 1+w.r.IntN(5))
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

// Whatever is stored, overwritten, forgotten and expired, in any order and across restarts, memories behave like a map.
func TestMemoriesAreAMap(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			raw := memstore.New()
			w := &world{k: enginetest.Open(t, raw), r: rand.New(rand.NewPCG(seed, 1)), keys: map[string]remembered{}, tags: map[string]bool{}}
			for range 250 {
				switch n := w.r.IntN(20); {
				case n < 11:
					w.store()
				case n < 13:
					w.forget()
				case n < 17:
					w.k.Advance(time.Duration(w.r.IntN(4000)) * time.Second)
					w.expire()
				case n < 19:
					w.k.Drain()
				default:
					now := w.k.Clock()
					w.k = enginetest.Open(t, raw)
					w.k.Now = now
				}
				w.check()
			}
		})
	}
}
