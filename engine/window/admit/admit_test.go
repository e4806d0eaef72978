package admit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

const allPolicies = `{"admit_pipeline":[{"policy":"redact-secrets"},{"policy":"guard-trust"},{"policy":"refuse-noise"},` +
	`{"policy":"dedupe"}]}`

func open(t *testing.T) *enginetest.Kit {
	k := enginetest.New(t)
	set(k, allPolicies)
	return k
}

func set(k *enginetest.Kit, settings string) {
	k.Helper()
	if _, err := k.Projects.PatchSettings(k.Context(), k.Admin, ident.DefaultProject, json.RawMessage(settings)); err != nil {
		k.Fatal(err)
	}
}

// call calls a tool with an agent's key.
func call(k *enginetest.Kit, name string, arguments any, sources ...memory.Source) tools.Result {
	k.Helper()
	text, err := json.Marshal(arguments)
	if err != nil {
		k.Fatal(err)
	}
	out, err := k.Tools.Call(k.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		tools.Call{Name: name, Arguments: text, Sources: sources})
	if err != nil {
		k.Fatal(err)
	}
	return out
}

type args = map[string]any

func code(out tools.Result) string {
	if f, ok := out.Structured.(tools.Failure); ok {
		return f.Error.Code
	}
	return ""
}

func contents(k *enginetest.Kit) (all []string) {
	k.Helper()
	for _, m := range k.ListMemories(memory.Filter{}, 100) {
		all = append(all, m.Content)
	}
	slices.Sort(all)
	return all
}

func TestToolsAreRefused(t *testing.T) {
	k := open(t)
	out := call(k, "memory_store", args{"content": "The user asked about the weather."})
	if !out.IsError || code(out) != "memory_refused" || !strings.Contains(out.Content, "about_conversation") {
		t.Errorf("%+v", out)
	}
	out = call(k, "memory", args{"command": "create", "path": "/memories/core/a.md", "file_text": "HEARTBEAT_OK"})
	if !out.IsError || code(out) != "memory_refused" {
		t.Errorf("a file: %+v", out)
	}
	if all := contents(k); len(all) != 0 {
		t.Errorf("%q is stored", all)
	}
	k.Remember(memory.Spec{Content: "HEARTBEAT_OK"}) // A client's words pass unread.
}

func TestSecretsAreRedacted(t *testing.T) {
	k := open(t)
	const key = "ghp_012345678901234567890123456789012345"
	m := k.Remember(memory.Spec{Key: "k", Content: "My token is " + key, Value: json.RawMessage(`{"a":"` + key + `"}`),
		Metadata: map[string]json.RawMessage{"b": json.RawMessage(`"` + key + `"`)}, Tags: []string{"x"}})
	if m.Content != "My token is [redacted: token]" || string(m.Value) != `{"a":"[redacted: token]"}` ||
		string(m.Metadata["b"]) != `"[redacted: token]"` || !slices.Equal(m.Tags, []string{"x"}) || m.Trust != memory.TrustModel ||
		m.Provenance == nil || m.Provenance.Policy != "redact-secrets" || m.Provenance.Reason != "secret" {
		t.Errorf("%+v", m)
	}
	call(k, "memory", args{"command": "create", "path": "/memories/core/f.md", "file_text": "Host a.\nToken " + key})
	if all := contents(k); !slices.Contains(all, "Host a.\nToken [redacted: token]") {
		t.Errorf("%q", all)
	}
}

func TestMerging(t *testing.T) {
	k := open(t)
	first := k.Remember(memory.Spec{Content: "I live in Porto with my wife.", Tags: []string{"a"}})
	again := k.Remember(memory.Spec{Content: "i live in porto with my wife", Tags: []string{"b"}})
	if !again.Merged || again.Key != first.Key || again.Version != 1 || again.Content != first.Content ||
		!slices.Equal(again.Tags, []string{"a", "b"}) {
		t.Errorf("equal: %+v", again)
	}
	if m := k.Remember(memory.Spec{Content: "I live in Porto"}); !m.Merged || m.Key != first.Key || m.Version != 1 {
		t.Errorf("covered: %+v", m)
	}
	longer := k.Remember(memory.Spec{Content: "I live in Porto with my wife, and we have a dog."})
	if !longer.Merged || longer.Key != first.Key || longer.Version != 2 || longer.Content == first.Content {
		t.Errorf("extended: %+v", longer)
	}
	if m := k.Remember(memory.Spec{Content: "I live in Lisbon with my wife."}); m.Merged {
		t.Errorf("a contradiction is merged: %+v", m)
	}
	if m := k.Remember(memory.Spec{Key: "mine", Content: "I live in Porto"}); m.Merged || m.Key != "mine" {
		t.Errorf("a client's key: %+v", m)
	}
	if m := k.Remember(memory.Spec{Namespace: []string{"users"}, Content: "I live in Porto"}); m.Merged {
		t.Errorf("another namespace: %+v", m)
	}
	out := call(k, "memory_store", args{"key": "other", "content": "I live in Lisbon with my wife!"})
	if out.IsError || !strings.Contains(out.Content, "merged") {
		t.Errorf("a tool: %+v", out)
	}
	if all := k.ListMemories(memory.Filter{}, 100); len(all) != 4 {
		t.Errorf("%d memories", len(all))
	}
}

// A merge adds nothing to a pinned memory.
func TestPinnedMemoriesStay(t *testing.T) {
	k := open(t)
	pinned := k.Remember(memory.Spec{Key: "home", Content: "I live in Porto with my wife.", Tags: []string{"a"}, Pinned: true})
	m := k.Remember(memory.Spec{Content: "I live in Porto with my wife", Tags: []string{"b"}})
	if !m.Merged || m.Key != pinned.Key || m.Version != 1 || !slices.Equal(m.Tags, []string{"a"}) {
		t.Errorf("%+v", m)
	}
	m = k.Remember(memory.Spec{Content: "I live in Porto with my wife", Standing: true})
	if m.Merged || !m.Standing {
		t.Errorf("a standing memory is merged: %+v", m)
	}
	k.Sound()
}

// What another program kept is not decided.
func TestImportsAreNotDecided(t *testing.T) {
	k := open(t)
	for _, origin := range []memory.Origin{memory.OriginImport, memory.OriginTool} {
		_, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
			memory.Spec{Key: "beat", Content: "HEARTBEAT_OK", Origin: origin})
		if (err == nil) != (origin == memory.OriginImport) {
			t.Errorf("%s: %v", origin, err)
		}
	}
}

// panicking is an Admission that fails as it must not.
type panicking struct{ memory.Admission }

func (panicking) Admit(context.Context, *memory.Candidate) (*memory.Verdict, error) {
	panic("a mistake")
}

// Writers do not wait for one whose request ended in a panic.
func TestPanicsLeaveTheLine(t *testing.T) {
	k := open(t)
	whole := k.Memories.Admission
	k.Memories.Admission = panicking{whole}
	for _, write := range []func(){
		func() { k.Remember(memory.Spec{Content: "I live in Porto."}) },
		func() { call(k, "memory_store", args{"content": "I live in Porto."}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			write()
		}()
	}
	k.Memories.Admission = whole
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, _, err := k.Memories.Store(ctx, k.Admin, ident.Once{}, ident.DefaultProject, memory.Spec{Content: "I live in Porto."})
	if err != nil {
		t.Error(err)
	}
}

// The counts of a project's writers go with the project.
func TestCountsOfWriters(t *testing.T) {
	k := open(t)
	k.Remember(memory.Spec{Content: "I live in Porto."})
	counts := func() (n int) {
		for _, it := range k.Everything(ident.DefaultTenant) {
			if records.AdmitLine.Is(it.Key) {
				n++
			}
		}
		return n
	}
	if n := counts(); n != 1 {
		t.Fatalf("%d counts", n)
	}
	if err := k.Projects.Delete(t.Context(), k.Admin, ident.DefaultProject); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	if n := counts(); n != 0 {
		t.Errorf("%d counts are left", n)
	}
	k.Sound()
	lost := store.Pair{Key: records.AdmitLine.Key(ident.Incarnation{7}, "users"), Value: []byte{1}}
	if err := store.Seal(k.Store).Commit(t.Context(), ident.DefaultTenant, store.Batch{Put: []store.Pair{lost}}); err != nil {
		t.Fatal(err)
	}
	if f := k.Verify().Findings; len(f) != 1 || f[0].Code != "orphan" {
		t.Errorf("%+v", f)
	}
}

// What a user said is not replaced by what a model writes, and what is less trusted adds no tags to it.
func TestTrustIsGuarded(t *testing.T) {
	k := open(t)
	k.Post("s", enginetest.User("I am allergic to peanuts."), enginetest.Assistant("Noted."))
	m := k.Remember(memory.Spec{Key: "allergy", Content: "I am allergic to peanuts.", Sources: []memory.Source{{SessionID: "s", Seq: 1}}})
	if m.Trust != memory.TrustUser {
		t.Fatalf("%+v", m)
	}
	out := call(k, "memory_store", args{"key": "allergy", "content": "I am not allergic to anything."})
	if code(out) != "memory_refused" || !strings.Contains(out.Content, "protected") {
		t.Errorf("%+v", out)
	}
	out = call(k, "memory", args{"command": "str_replace", "path": "/memories/core/allergy.md", "old_str": "peanuts",
		"new_str": "nothing"})
	if code(out) != "memory_refused" {
		t.Errorf("a file: %+v", out)
	}
	call(k, "memory_store", args{"content": "I am allergic to peanuts", "tags": []string{"injected"}})
	all := k.ListMemories(memory.Filter{}, 100)
	if len(all) != 1 || all[0].Content != m.Content || all[0].Trust != memory.TrustUser || len(all[0].Tags) > 0 ||
		all[0].Version != 1 {
		t.Errorf("%+v", all)
	}
}

// An idempotent request that was merged is answered again from the memory, and a refused one runs again.
func TestIdempotency(t *testing.T) {
	k := open(t)
	first := k.Remember(memory.Spec{Content: "I live in Porto with my wife."})
	once := ident.Once{Key: "a", Body: [32]byte{1}}
	for range 2 {
		m, created, err := k.Memories.Store(t.Context(), k.Admin, once, ident.DefaultProject, memory.Spec{Content: "I live in Porto."})
		if err != nil || created || !m.Merged || m.Key != first.Key || m.Content != first.Content {
			t.Errorf("%+v %v %v", m, created, err)
		}
	}
	once = ident.Once{Key: "b", Body: [32]byte{2}}
	noise := memory.Spec{Content: "HEARTBEAT_OK", Origin: memory.OriginTool}
	_, _, err := k.Memories.Store(t.Context(), k.Admin, once, ident.DefaultProject, noise)
	enginetest.RefusedWith(t, err, fault.Invalid, "memory_refused")
	set(k, `{"admit_pipeline":[]}`)
	if _, created, err := k.Memories.Store(t.Context(), k.Admin, once, ident.DefaultProject, noise); err != nil || !created {
		t.Error(created, err)
	}
}

// A step that fails is skipped, or fails the request.
func TestFailingSteps(t *testing.T) {
	k := enginetest.New(t)
	_, err := k.Projects.PatchSettings(t.Context(), k.Admin, ident.DefaultProject,
		json.RawMessage(`{"admit_pipeline":[{"policy":"tool-pair-trim"}]}`))
	enginetest.RefusedWith(t, err, fault.Invalid, "hook_missing")
	if err == nil || !strings.Contains(fmt.Sprint(err), "admit") {
		t.Error(err)
	}
}

// Writers of equal texts in two servers on one store leave one memory.
func TestRaces(t *testing.T) {
	raw := memstore.New()
	one := enginetest.Open(t, raw)
	set(one, allPolicies)
	two := enginetest.Open(t, raw)
	const writers, facts = 4, 6
	var wg sync.WaitGroup
	var mu sync.Mutex
	keys := map[int]map[string]bool{}
	for n := range facts {
		keys[n] = map[string]bool{}
		for w := range writers {
			wg.Go(func() {
				k := []*enginetest.Kit{one, two}[w%2]
				for {
					m, _, err := k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
						memory.Spec{Content: fmt.Sprintf("The fact with the name number%d is about Porto.", n)})
					if known, ok := errors.AsType[*fault.Error](err); ok && known.Code == "namespace_busy" {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					keys[n][m.Key] = true
					mu.Unlock()
					return
				}
			})
		}
	}
	wg.Wait()
	for n, found := range keys {
		if len(found) != 1 {
			t.Errorf("fact %d has %d memories", n, len(found))
		}
	}
	if all := one.ListMemories(memory.Filter{}, 100); len(all) != facts {
		t.Errorf("%d memories of %d facts", len(all), facts)
	}
}

func lines[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	f, err := os.Open("../../../testdata/memories/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var one T
		if err := json.Unmarshal(s.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// None of the contradictions is merged.
func TestContradictionsStay(t *testing.T) {
	k := open(t)
	for i, pair := range lines[struct{ One, Other string }](t, "contradictions.jsonl") {
		for _, content := range []string{pair.One, pair.Other} {
			spec := memory.Spec{Namespace: []string{fmt.Sprint("pair", i)}, Content: content}
			if m := k.Remember(spec); m.Merged {
				t.Errorf("%q is merged: %+v", content, m)
			}
		}
	}
}
