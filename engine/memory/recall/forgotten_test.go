package recall_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/tools"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// inBlocks stores a memory with a unique word, and others until all are in blocks.
func inBlocks(k *enginetest.Kit) {
	k.Helper()
	k.Keep("secret", "zebrafish quagmire")
	for n := range 70 {
		k.Keep(fmt.Sprint("other", n), "chatter")
	}
	k.Drain()
}

// stopping is a store that fails to remove dead documents from the index while it is set.
type stopping struct {
	store.Store
	set atomic.Bool
}

func (s *stopping) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if s.set.Load() && slices.ContainsFunc(b.Delete, records.RecallDead.Is) {
		return errors.New("the store fails here")
	}
	return s.Store.Commit(ctx, tenant, b)
}

// Forgotten documents are removed from the index later if the store fails right after the commit that forgets them.
func TestForgottenThoughTheStoreFails(t *testing.T) {
	raw := &stopping{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	inBlocks(k)
	raw.set.Store(true)
	k.Forget("secret")
	raw.set.Store(false)
	if !k.Holds(ident.DefaultTenant, "quagmir") {
		t.Fatal("the word was taken out at once, so that nothing is tested")
	}
	k.Drain()
	if k.Holds(ident.DefaultTenant, "quagmir") {
		t.Error("the word stays in the index")
	}
}

// A memory that moves leaves nothing of its history, and so none of the words of its earlier versions.
func TestMovedMemoriesLeaveNoWords(t *testing.T) {
	k := enginetest.New(t)
	inBlocks(k)
	k.Keep("secret", "harmless")
	rename := `{"command":"rename","old_path":"/memories/core/secret.md","new_path":"/memories/core/plain.md"}`
	r, err := k.Tools.Call(t.Context(), k.Admin, ident.Once{}, ident.DefaultProject,
		tools.Call{Name: "memory", Arguments: []byte(rename)})
	if err != nil || r.IsError {
		t.Fatal(r.Content, err)
	}
	if k.Holds(ident.DefaultTenant, "quagmir") {
		t.Error("a word of an earlier version stays in the index")
	}
}

// Dead documents are removed in batches that the store accepts, however large their blocks are.
func TestTakingOutIsBounded(t *testing.T) {
	k := enginetest.New(t)
	var words strings.Builder
	for i := range 990 {
		fmt.Fprintf(&words, "w%dx ", i)
	}
	for i := range 800 { // so that each word has several blocks of several kilobytes
		k.Advance(time.Minute)
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: words.String(), Source: fmt.Sprint("source", i),
			Tags: []string{fmt.Sprint("t", i), fmt.Sprint("u", 7*i)}})
		if i%100 == 99 {
			k.Drain()
		}
	}
	for _, i := range []int{100, 356, 612} {
		k.Keep(fmt.Sprint("m", i), "short")
	}
	k.Forget("m700")
	for _, it := range k.Everything(ident.DefaultTenant) {
		if records.RecallDead.Is(it.Key) {
			t.Fatal("a dead document was not taken out")
		}
	}
}
