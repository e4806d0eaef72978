package engine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/board"
	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/backup"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// Forgotten data is in no record, backup or export, and after the next daily job in no file: neither the text of a
// memory and of its earlier versions, nor what idempotent requests contained about a memory, a session or a board
// entry.
func TestForgottenTextIsNowhere(t *testing.T) {
	dir := t.TempDir()
	db, err := badgerstore.Open(badgerstore.Options{Dir: dir, Uncompressed: true, ReserveBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k := enginetest.Open(t, db)
	const word = "quixotr" // the index stems words, but does not shorten this one further
	once := func(key string) ident.Once { return ident.Once{Key: key, Body: [32]byte{1}} }
	request := memory.Spec{Key: "k0", Content: "the first quixotry0 of all", Tags: []string{"quixotryTag"},
		Source: "quixotrySource"}
	if _, _, err := k.Memories.Store(t.Context(), k.Admin, once("m"), ident.DefaultProject, request); err != nil {
		t.Fatal(err)
	}
	for i := range 80 { // enough for blocks of the index
		k.Keep(fmt.Sprint("k", i), fmt.Sprintf("quixotry%d of the fable", i))
	}
	if _, err := k.Sessions.Create(t.Context(), k.Admin, once("s"), ident.DefaultProject,
		session.Spec{ID: "s", Title: "quixotryTitle"}); err != nil {
		t.Fatal(err)
	}
	source := "quixotrySource"
	if _, err := k.Boards.PostEntry(t.Context(), k.Admin, once("b"), "b", board.Post{Content: "quixotryEntry",
		Tags: []string{"quixotryTag"}, Source: &source}); err != nil {
		t.Fatal(err)
	}
	w := k.Ask(`{"memories":{"query":"fable","limit":50},"pending":[{"role":"user","content":"which fable?"}]}`)
	if !bytes.Contains(w.Raw, []byte("quixotry")) {
		t.Fatal("the window shows no memory")
	}
	k.Drain()
	if len(files(t, dir, word)) == 0 || !k.Holds(ident.DefaultTenant, word) {
		t.Fatal("the test sees nothing")
	}

	for i := range 80 {
		k.Forget(fmt.Sprint("k", i))
	}
	if err := k.Sessions.Delete(t.Context(), k.Admin, ident.DefaultProject, "s"); err != nil {
		t.Fatal(err)
	}
	if err := k.Boards.Delete(t.Context(), k.Admin, "b"); err != nil {
		t.Fatal(err)
	}
	k.Drain()
	for _, it := range k.Everything(ident.DefaultTenant) {
		if bytes.Contains(it.Key, []byte(word)) || bytes.Contains(it.Value, []byte(word)) {
			t.Errorf("the record %q holds it: %.200q", it.Key, it.Value)
		}
	}
	if bytes.Contains(export(k), []byte(word)) {
		t.Error("the export holds it")
	}
	var file bytes.Buffer
	if _, err := backup.Write(t.Context(), &file, store.Seal(db), backup.Created(k.Clock(), "test")); err != nil {
		t.Fatal(err)
	}
	restored := memstore.New()
	if _, err := backup.Restore(t.Context(), store.Seal(restored), &file); err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]*enginetest.Kit{"here": k, "restored": enginetest.Open(t, restored)} {
		if k.Holds(ident.DefaultTenant, word) {
			t.Errorf("%s: a record holds it", name)
		}
		_, _, err := k.Memories.Store(t.Context(), k.Admin, once("m"), ident.DefaultProject, request)
		if e := enginetest.WantKind(t, err, fault.Gone); e.Code != "memory_forgotten" || strings.Contains(e.Detail, word) {
			t.Errorf("%s: the request again: %v", name, e)
		}
	}
	k.Advance(enginetest.ADay + time.Minute)
	k.Drain()
	if names := files(t, dir, word); len(names) > 0 {
		t.Errorf("it is in %v", names)
	}
}
