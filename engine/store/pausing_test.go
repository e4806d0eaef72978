package store_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
	"github.com/seed-0906e6bc/mneme/engine/store/storetest"
)

// Pausing is a store like its inner one, and each wait that it announces ends.
func TestPausing(t *testing.T) {
	for _, reads := range []bool{false, true} {
		var waits, ended atomic.Int64
		pause := func(context.Context) func() { waits.Add(1); return func() { ended.Add(1) } }
		storetest.Run(t, func(t *testing.T) store.Store { return store.Pausing(memstore.New(), reads, pause) })
		if waits.Load() == 0 || waits.Load() != ended.Load() {
			t.Errorf("%d waits began, %d ended", waits.Load(), ended.Load())
		}
		s := store.Pausing(memstore.New(), reads, pause)
		before := waits.Load()
		if _, err := s.Read(t.Context(), "t", store.Query{}); err != nil || (waits.Load() > before) != reads {
			t.Errorf("reads %v: %v, %d waits", reads, err, waits.Load()-before)
		}
	}
}
