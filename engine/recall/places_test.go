package recall_test

import (
	"fmt"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/memory"
	"github.com/seed-0906e6bc/mneme/engine/recall"
)

// Far more memories of one millisecond than it has places in the index are stored and found, also where one commit puts
// many of them there, as building the index again does.
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
