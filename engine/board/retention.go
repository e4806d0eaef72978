package board

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// retentionPause is the minimum time between two retention checks of a board.
const retentionPause = time.Hour

// Units returns the background work of boards: removing entries that are past their board's retention. The records of
// deleted boards and inboxes are removed by jobs.Service.SweepPrefixed.
func (svc *Service) Units() []jobs.Unit {
	due := func(_ string, now time.Time) store.Range {
		rng := records.BoardDueJob.Before(now.Add(time.Millisecond))
		rng.KeysOnly, rng.Limit = true, 1
		return rng
	}
	return []jobs.Unit{{Due: due, Do: func(ctx context.Context, tenant string, found []store.Item) (bool, error) {
		return true, svc.expire(ctx, tenant, found[0].Key)
	}}}
}

// schedule sets when retention checks a board again; nil means never.
func schedule(t *records.Tx, b *boardRecord, due *time.Time) {
	if b.Due != nil && due != nil && due.Equal(*b.Due) {
		return
	}
	if b.Due != nil {
		t.Delete(records.BoardDueJob.Key(*b.Due, b.ID))
	}
	b.Due = due
	if due != nil {
		t.Put(records.BoardDueJob.Key(*due, b.ID), []byte{0})
	}
}

// expire removes entries that are past their board's retention, as many as one commit may. If none are left, it
// schedules the next check for when the oldest entry expires.
func (svc *Service) expire(ctx context.Context, tenant string, job []byte) error {
	_, id, _ := records.BoardDueJob.Split(job)
	c := ident.Caller{Tenant: tenant}
	_, err := change(ctx, svc, c, ident.Once{}, id, existing, func(t *records.Tx, b *boardRecord) (int, error) {
		if b.RetentionDays == nil || b.Due == nil || string(records.BoardDueJob.Key(*b.Due, id)) != string(job) {
			t.Delete(job)
			return 0, nil
		}
		until := svc.db.Settled().AddDate(0, 0, -*b.RetentionDays)
		n, err := svc.purge(t, b, &Filter{Until: &until}, b.Last)
		if err != nil || n > 0 {
			return n, err
		}
		return 0, scheduleNext(t, b)
	})
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case fault.IsNotFound(err):
		return svc.db.Commit(ctx, tenant, store.Batch{Delete: [][]byte{job}})
	}
	// Postpone the board: an error here must not stop the tenant's other work.
	svc.db.Log.Error("retention of a board failed and will be retried", "tenant", tenant, "board", id,
		"error", err)
	_, err = change(ctx, svc, c, ident.Once{}, id, existing, func(t *records.Tx, b *boardRecord) (struct{}, error) {
		due := t.Now.Add(retentionPause)
		schedule(t, b, &due)
		return struct{}{}, nil
	})
	return err
}

// scheduleNext schedules the next check of a board for when its oldest entry expires.
func scheduleNext(t *records.Tx, b *boardRecord) error {
	oldest, err := t.DB.FirstKey(t.Ctx, t.Tenant, records.EntryTime.Under(b.Incarnation))
	if err != nil {
		return err
	}
	at := t.Now
	if oldest != nil {
		_, at, _, _ = records.EntryTime.Split(oldest.Key)
	}
	// Filter.Until is exclusive, so the oldest entry expires a millisecond after its last day.
	due := at.AddDate(0, 0, *b.RetentionDays).Add(time.Millisecond)
	if soonest := t.Now.Add(retentionPause); due.Before(soonest) {
		due = soonest
	}
	schedule(t, b, &due)
	return nil
}
