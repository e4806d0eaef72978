package memory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// A memory with corrupted bytes is shown as damaged, affects no other memory, and can be forgotten, expire, and be
// stored again.
func TestDamagedMemories(t *testing.T) {
	k := enginetest.Open(t, memstore.New())
	long := strings.Repeat("word ", 150_000)
	k.Remember(memory.Spec{Key: "whole", Content: "fine"})
	k.Remember(memory.Spec{Key: "rots", Content: "before"})
	k.Remember(memory.Spec{Key: "rots", Content: "apple", Tags: []string{"fruit"}})
	k.Remember(memory.Spec{Key: "perishable", Content: long + "pear", Category: "daily"})
	records := len(k.Everything(ident.DefaultTenant))
	k.Damage("apple")
	k.Damage("pear")
	got := k.ListMemories(memory.Filter{}, 2)
	if len(got) != 3 {
		t.Fatalf("%d are listed", len(got))
	}
	for _, m := range got {
		if m.Damaged != (m.Key != "whole") || m.Damaged && m.Content != "" {
			t.Errorf("listed as %s", brief(m))
		}
	}
	if got = k.ListMemories(memory.Filter{Tags: []string{"fruit"}}, 2); len(got) != 1 || got[0].Key != "rots" {
		t.Errorf("filtered: %+v", got)
	}
	_, err := k.Memories.Get(t.Context(), k.Admin, ident.DefaultProject, "rots")
	enginetest.WantKind(t, err, fault.Conflict)
	_, _, err = k.Memories.Store(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		memory.Spec{Key: "rots", Content: "new"})
	enginetest.WantKind(t, err, fault.Conflict)
	kept := map[string]memory.Filter{"another category": {Category: "daily"}, "another tag": {Tags: []string{"x"}},
		"what only the record tells": {Metadata: memory.Conditions{"n": []byte("null")}}}
	forgetIf := func(f memory.Filter) bool {
		t.Helper()
		gone, err := k.Memories.ForgetPassing(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject, "rots", f)
		if err != nil {
			t.Error(err)
		}
		return gone.Forgotten
	}
	for why, f := range kept {
		if forgetIf(f) || len(k.ListMemories(memory.Filter{}, 9)) != 3 {
			t.Errorf("a damaged memory is forgotten by a filter of %s", why)
		}
	}
	if !forgetIf(memory.Filter{Category: "core", Tags: []string{"fruit"}}) || k.Forget("rots") {
		t.Error("a damaged memory is not forgotten once")
	}
	if m := k.Remember(memory.Spec{Key: "rots", Content: "new"}); m.Version != 1 {
		t.Errorf("stored again: %s", brief(m))
	}
	k.Advance(8 * 24 * time.Hour)
	k.Drain()
	if got := k.ListMemories(memory.Filter{}, 9); len(got) != 2 {
		t.Errorf("after the expiry %d are listed", len(got))
	}
	if k.Holds(ident.DefaultTenant, "perishable") || len(k.Everything(ident.DefaultTenant)) >= records {
		t.Error("something of the damaged ones is left")
	}
}
