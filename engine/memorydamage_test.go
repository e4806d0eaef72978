package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// damage flips a byte of the stored records that begin like a memory's and whose value holds the word.
func (k *kit) damage(word string) {
	k.Helper()
	r, err := k.store.Read(k.Context(), ident.DefaultTenant, store.Query{Ranges: []store.Range{{}}})
	if err != nil {
		k.Fatal(err)
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		key := strings.TrimPrefix(string(it.Key), "\xff\xff\xff\xff") // of a rest
		if strings.HasPrefix(key, "e\x00r") && strings.Contains(string(it.Value), word) {
			flipped := append([]byte(nil), it.Value...)
			flipped[len(flipped)/2] ^= 1
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: flipped})
		}
	}
	if len(b.Put) == 0 {
		k.Fatalf("no memory holds %q", word)
	}
	if err := k.store.Commit(k.Context(), ident.DefaultTenant, b); err != nil {
		k.Fatal(err)
	}
}

// A memory whose bytes rot is shown as damaged, takes no other with it, and can be forgotten, expire, and be stored
// again.
func TestDamagedMemories(t *testing.T) {
	k := openKit(t, memstore.New())
	long := strings.Repeat("word ", 150_000)
	k.remember(memory.Spec{Key: "whole", Content: "fine"})
	k.remember(memory.Spec{Key: "rots", Content: "before"})
	k.remember(memory.Spec{Key: "rots", Content: "apple", Tags: []string{"fruit"}})
	k.remember(memory.Spec{Key: "perishable", Content: long + "pear", Category: "daily"})
	records := len(k.everything(ident.DefaultTenant))
	k.damage("apple")
	k.damage("pear")
	got := k.memories(memory.Filter{}, 2)
	if len(got) != 3 {
		t.Fatalf("%d are listed", len(got))
	}
	for _, m := range got {
		if m.Damaged != (m.Key != "whole") || m.Damaged && m.Content != "" {
			t.Errorf("listed as %s", brief(m))
		}
	}
	if got = k.memories(memory.Filter{Tags: []string{"fruit"}}, 2); len(got) != 1 || got[0].Key != "rots" {
		t.Errorf("filtered: %+v", got)
	}
	_, err := k.Memories.Get(t.Context(), k.admin, ident.DefaultProject, "rots")
	wantKind(t, err, fault.Conflict)
	_, _, err = k.Memories.Store(t.Context(), k.admin, access.Once{}, ident.DefaultProject,
		memory.Spec{Key: "rots", Content: "new"})
	wantKind(t, err, fault.Conflict)
	if !k.forget("rots") || k.forget("rots") {
		t.Error("a damaged memory is not forgotten once")
	}
	if m := k.remember(memory.Spec{Key: "rots", Content: "new"}); m.Version != 1 {
		t.Errorf("stored again: %s", brief(m))
	}
	k.advance(8 * 24 * time.Hour)
	k.drain()
	if got := k.memories(memory.Filter{}, 9); len(got) != 2 {
		t.Errorf("after the expiry %d are listed", len(got))
	}
	if k.holds(ident.DefaultTenant, "perishable") || len(k.everything(ident.DefaultTenant)) >= records {
		t.Error("something of the damaged ones is left")
	}
}
