package engine_test

import (
	"errors"
	"testing"

	"github.com/seed-0906e6bc/mneme/engine/enginetest"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store/memstore"
)

// On a full disk turns are refused completely and windows are made without a decision. Both work again once there is
// space.
func TestFullDisk(t *testing.T) {
	disk := &enginetest.FullDisk{Store: memstore.New()}
	k := enginetest.Open(t, disk)
	k.Post("s", enginetest.User("first"))
	disk.Full.Store(true)
	for range 2 {
		_, err := k.TryPost(session.TurnRequest{SessionID: "s"}, enginetest.User("refused"))
		if full := (*fault.Error)(nil); !errors.As(err, &full) || full.Kind != fault.NoSpace {
			t.Fatalf("a turn on a full disk: %v", err)
		}
		w := k.Ask(`{"session_id":"s","explain":true}`)
		if w.DecisionID != "" || len(w.Messages) != 1 || len(w.Report) != 1 {
			t.Fatalf("a window on a full disk: %s", w.Raw)
		}
	}
	disk.Full.Store(false)
	if r := k.Post("s", enginetest.User("second")); r.Turn != 2 {
		t.Errorf("turn %d after space returned, want 2", r.Turn)
	}
	w := k.Ask(`{"session_id":"s"}`)
	if len(w.Messages) != 2 {
		t.Errorf("the window after space returned: %s", w.Raw)
	}
	k.Replay(w.DecisionID)
}
