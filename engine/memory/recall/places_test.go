package recall_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/memory/recall"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// Documents wait in at most two epochs, however many there are and whenever the job runs. A writer that adds one checks
// both for whether its place is taken.
func TestDocumentsWaitInTwoEpochs(t *testing.T) {
	k := enginetest.New(t)
	for i := range 4600 {
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: fmt.Sprint("number", i)})
		if i < 4000 || i%100 > 0 {
			continue
		}
		if _, err := k.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		now, waiting := uint32(0), map[uint32]int{}
		for _, it := range k.Everything(ident.DefaultTenant) {
			if records.RecallEpoch.Is(it.Key) {
				now = binary.BigEndian.Uint32(it.Value)
			} else if records.RecallFresh.Is(it.Key) {
				_, _, epoch, _, _, _ := records.RecallFresh.Split(it.Key)
				waiting[epoch]++
			}
		}
		delete(waiting, now)
		delete(waiting, now-1)
		if len(waiting) > 0 {
			t.Fatalf("in epoch %d documents wait that were added in %v", now, waiting)
		}
	}
	k.Drain()
	wantWhole(k)
}

// Far more memories of one millisecond than it has places in the index are stored and found, even if one commit writes
// many of them, as a rebuild of the index does.
func TestManyMemoriesOfOneMillisecond(t *testing.T) {
	k := enginetest.New(t)
	const n = 2500
	for i := range n {
		k.Remember(memory.Spec{Key: fmt.Sprint("m", i), Content: fmt.Sprint("number", i)})
	}
	k.Drain()
	wantWhole(k)
	damageIndex(k, "mt", true)
	if !rebuild(k, recall.Query{Query: "number0"}) {
		t.Error("the index was not built again")
	}
	for i := range n {
		if got := k.Found(recall.Query{Query: fmt.Sprint("number", i)}); len(got) == 0 || got[0] != fmt.Sprint("m", i) {
			t.Fatalf("memory %d of one millisecond: %q", i, got)
		}
	}
	wantWhole(k)
}
