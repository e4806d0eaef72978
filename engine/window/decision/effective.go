package decision

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/window/policy"
)

// secondKeep is the delay after which shared records are written a second time. The writes are not synced, so a crash
// of the database may lose one of them, but not both.
const secondKeep = 10 * time.Second

// writtenToday remembers which shared records this process has already written for the day. The zero value is ready to
// use.
type writtenToday struct {
	mu   sync.Mutex
	keys map[string]time.Time // when to write the key a second time; zero means never
}

func (w *writtenToday) has(key string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	again, ok := w.keys[key]
	return ok && (again.IsZero() || now.Before(again))
}

// add records that a key was written. After the first call for a key, has returns false again from the given time on,
// so that the key is written twice.
func (w *writtenToday) add(key string, again time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys == nil || len(w.keys) >= records.MemoSize {
		w.keys = map[string]time.Time{}
	}
	if _, ok := w.keys[key]; ok {
		again = time.Time{}
	}
	w.keys[key] = again
}

// keepEffective writes the settings and pinned pipeline that decisions of a day share. Over time it writes them twice.
func (svc *Service) keepEffective(ctx context.Context, tenant string, pinc ident.Incarnation, day uint16,
	r *policy.Ready) error {
	key := records.Effective.Key(pinc, day, r.Hash)
	name := tenant + string(key)
	if svc.writtenToday.has(name, svc.db.Now()) {
		return nil
	}
	err := svc.db.Commit(ctx, tenant, store.Batch{Put: []store.Pair{{Key: key, Value: r.Record}}})
	if err == nil {
		svc.writtenToday.add(name, svc.db.Now().Add(secondKeep))
	}
	return err
}

// effectiveKey returns the key of the settings and the pipeline of a decision. ok is false if the decision refers to
// none.
func (r *Record) effectiveKey(pinc ident.Incarnation) (key []byte, ok bool) {
	hash, err := hex.DecodeString(r.Effective)
	if err != nil || len(hash) != 16 {
		return nil, false
	}
	return records.Effective.Key(pinc, records.Day(records.TimeOf(r.At)), [16]byte(hash)), true
}

// readEffective reads the settings and the pipeline of a decision.
func (svc *Service) readEffective(ctx context.Context, tenant string, d *Decision) error {
	key, ok := d.effectiveKey(d.Project.Incarnation)
	if !ok {
		return fmt.Errorf("%w: a decision's pipeline", records.ErrDamaged)
	}
	it, err := svc.db.ReadItem(ctx, tenant, key)
	if err != nil {
		return err
	}
	if it.Value == nil {
		return fault.Errorf(fault.Gone, "pipeline_purged",
			"the settings and pipeline that this decision was made with are no longer stored")
	}
	if d.Shared, err = svc.effectives.Decode(tenant+string(key), it.Value); err != nil {
		return fmt.Errorf("%w: a decision's pipeline: %w", records.ErrDamaged, err)
	}
	return nil
}
