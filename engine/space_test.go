package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// fullDisk is a store that, while full, refuses to write as the default one does.
type fullDisk struct {
	store.Store
	full atomic.Bool
}

func (d *fullDisk) Commit(ctx context.Context, tenant string, b store.Batch) error {
	if d.full.Load() && len(b.Put) > 0 {
		return store.ErrNoSpace
	}
	return d.Store.Commit(ctx, tenant, b)
}

// On a full disk turns are refused whole, windows go on without a decision, and both are as before once there is room.
func TestFullDisk(t *testing.T) {
	disk := &fullDisk{Store: memstore.New()}
	k := openKit(t, disk)
	k.post("s", user("first"))
	disk.full.Store(true)
	for range 2 {
		_, err := k.tryPost(session.TurnRequest{SessionID: "s"}, user("refused"))
		if full := (*fault.Error)(nil); !errors.As(err, &full) || full.Kind != fault.NoSpace {
			t.Fatalf("a turn on a full disk: %v", err)
		}
		w := k.ask(`{"session_id":"s","explain":true}`)
		if w.DecisionID != "" || len(w.Messages) != 1 || len(w.Report) != 1 {
			t.Fatalf("a window on a full disk: %s", w.raw)
		}
	}
	disk.full.Store(false)
	if r := k.post("s", user("second")); r.Turn != 2 {
		t.Errorf("turn %d after space returned, want 2", r.Turn)
	}
	w := k.ask(`{"session_id":"s"}`)
	if len(w.Messages) != 2 {
		t.Errorf("the window after space returned: %s", w.raw)
	}
	k.replay(w.DecisionID)
}
