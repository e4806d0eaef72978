package recall_test

import (
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/index"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// marks returns the marks of dead documents.
func marks(k *enginetest.Kit) (out []store.Item) {
	k.Helper()
	for _, it := range k.Everything(ident.DefaultTenant) {
		if records.RecallDead.Is(it.Key) {
			out = append(out, it)
		}
	}
	return out
}

// write writes a record as an engine does.
func write(k *enginetest.Kit, key, value []byte) {
	k.Helper()
	b := store.Batch{Put: []store.Pair{{Key: key, Value: value}}}
	if err := store.Seal(k.Store).Commit(k.Context(), ident.DefaultTenant, b); err != nil {
		k.Fatal(err)
	}
}

// A document that is marked as dead in two epochs is subtracted once from the counts of its space.
func TestDeadInTwoEpochsCountsOnce(t *testing.T) {
	memory := memstore.New()
	raw := &stopping{Store: memory}
	k := enginetest.Open(t, raw)
	inBlocks(k)
	raw.set.Store(true)
	k.Forget("secret")
	raw.set.Store(false)
	marked := marks(k)
	if len(marked) != 1 {
		t.Fatalf("there are %d marks", len(marked))
	}
	project, kind, epoch, stream, pos, _ := records.RecallDead.Split(marked[0].Key)
	r, err := store.Seal(raw).Read(t.Context(), ident.DefaultTenant, store.Query{Keys: [][]byte{marked[0].Key}})
	if err != nil {
		t.Fatal(err)
	}
	write(k, records.RecallDead.Key(project, kind, epoch+1, stream, pos), r.Keys[0].Value)
	k.Drain()
	wantWhole(enginetest.Open(t, memory))
	if left := marks(k); len(left) > 0 {
		t.Errorf("%d marks are left", len(left))
	}
}

// Documents are put into blocks for their vectors however few there are, and no mark of a dead one remains.
func TestMarksOutliveEpochs(t *testing.T) {
	raw := &stopping{Store: memstore.New()}
	k := enginetest.Open(t, raw)
	inBlocks(k)
	raw.set.Store(true)
	k.Keep("secret", "harmless")
	project, kind, _, _, _, _ := records.RecallDead.Split(marks(k)[0].Key)
	raw.set.Store(false)
	for n := range 700 {
		k.Keep(fmt.Sprint("more", n), "talk")
	}
	for done := true; done; {
		var err error
		done, err = k.Index.FoldAll(t.Context(), k.Admin.Tenant, index.Space{Project: project, Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
	}
	k.Drain()
	if got := k.Found(recall.Query{Query: "zebrafish"}); len(got) > 0 || k.Holds(ident.DefaultTenant, "quagmir\x00") {
		t.Errorf("the words that were written over find %q", got)
	}
	k.Store = raw.Store // it is verified
	k.Sound()
}
