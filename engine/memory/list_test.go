package memory_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// counted is a store that counts the records returned by range reads.
type counted struct {
	store.Store
	records atomic.Int64
}

func (c *counted) Read(ctx context.Context, tenant string, q store.Query) (store.Result, error) {
	r, err := c.Store.Read(ctx, tenant, q)
	for _, items := range r.Ranges {
		c.records.Add(int64(len(items)))
	}
	return r, err
}

// One page reads no more of a project than it may, and says that there is more. The following pages reach the end.
func TestMemoryPagesAreBounded(t *testing.T) {
	raw := &counted{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	k.Remember(memory.Spec{Key: "needle", Content: "x", Tags: []string{"rare"}})
	const hay = 5_200
	for i := range hay {
		k.Remember(memory.Spec{Key: fmt.Sprint("hay", i), Content: "x"})
	}
	raw.records.Store(0)
	rare := memory.Filter{Tags: []string{"rare"}}
	list, err := k.Memories.List(t.Context(), k.Admin, ident.DefaultProject, rare, memory.Recent, records.Page{Limit: 5})
	if err != nil || len(list.Data) != 0 || !list.HasMore {
		t.Fatalf("the first page has %d, has_more %v: %v", len(list.Data), list.HasMore, err)
	}
	if n := raw.records.Load(); n < 4_000 || n > 5_000 {
		t.Errorf("a page looked at %d entries", n)
	}
	if got := k.ListMemories(rare, 5); len(got) != 1 {
		t.Errorf("all pages together find %d", len(got))
	}
	raw.records.Store(0)
	if list, err = k.Memories.List(t.Context(), k.Admin, ident.DefaultProject, memory.Filter{}, memory.Recent,
		records.Page{Limit: 5}); err != nil ||
		len(list.Data) != 5 || raw.records.Load() > 6 {
		t.Errorf("a page of five without a filter looked at %d entries: %v", raw.records.Load(), err)
	}
}

// One page returns no more content than it may, however many memories are requested.
func TestMemoryPagesAreBoundedInBytes(t *testing.T) {
	k := enginetest.New(t)
	for i := range 20 {
		k.Remember(memory.Spec{Key: fmt.Sprint("k", i), Content: strings.Repeat("x", 1<<20)})
	}
	page, seen := records.Page{Limit: 1000}, 0
	for {
		list, err := k.Memories.List(t.Context(), k.Admin, ident.DefaultProject, memory.Filter{}, memory.ByKey, page)
		if err != nil || len(list.Data) > 8 || len(list.Data) == 0 {
			t.Fatalf("a page has %d MiB: %v", len(list.Data), err)
		}
		seen += len(list.Data)
		if !list.HasMore {
			break
		}
		page.Cursor = *list.NextCursor
	}
	if seen != 20 {
		t.Errorf("%d of 20 are listed", seen)
	}
}
