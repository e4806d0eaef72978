package session

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Units returns the background work of sessions.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{
		{Due: func(_ string, now time.Time) store.Range { return records.DueStaged(now, records.SweepChunk/2) },
			Do: func(ctx context.Context, tenant string, found []store.Item) (bool, error) {
				return true, svc.db.SweepStaged(ctx, tenant, found)
			}},
		jobs.FirstJob(records.HeadlessJob.All(), svc.sweepHeadless),
	}
}

// Dailies returns the daily work of sessions: removing those that are too old.
func (svc *Service) Dailies() []jobs.Daily {
	return []jobs.Daily{{Name: "conversations", Piece: svc.projects.OfEach(svc.expire)}}
}

// SweepHeads turns some of a deleted project's sessions into jobs that sweep them, and reports whether there were any.
func (svc *Service) SweepHeads(ctx context.Context, tenant string, pinc ident.Incarnation) (more bool, err error) {
	rng := records.Session.Under(pinc)
	rng.Limit = records.SweepChunk / 4
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return false, err
	}
	var b store.Batch
	damaged := false
	for _, it := range r.Ranges[0] {
		_, id, _ := records.Session.Split(it.Key)
		b.Delete = append(b.Delete, it.Key, records.OpenCalls.Key(pinc, id))
		var h Head
		if !it.Damaged && json.Unmarshal(it.Value, &h) == nil {
			b.Put = append(b.Put, store.Pair{Key: records.SessionJob.Key(h.Incarnation), Value: pinc[:]})
		} else {
			damaged = true
		}
	}
	if damaged {
		b.Put = append(b.Put, store.Pair{Key: records.HeadlessJob.Key(pinc), Value: []byte{0}})
	}
	return true, svc.db.Commit(ctx, tenant, b)
}

// sweepHeadless finds messages that belong to no session and queues them for sweeping. If the head of another session
// is damaged, it leaves them to a later job, because they may be that session's. Concurrent writes are safe: a
// session's head, or the job of an import, is written before its messages can be seen here.
func (svc *Service) sweepHeadless(ctx context.Context, tenant string, job store.Item) error {
	pinc, ok := records.HeadlessJob.Split(job.Key)
	if !ok {
		return records.ErrDamaged
	}
	orphans, err := svc.messageOwners(ctx, tenant)
	if err != nil {
		return err
	}
	// Read jobs first: the last commit of an import deletes its job and writes the head.
	for _, jobs := range []store.Range{records.SessionJob.All(), records.StagedSessionJob.All()} {
		for it, err := range svc.db.Scan(ctx, tenant, jobs) {
			if err != nil {
				return err
			}
			delete(orphans, ident.Incarnation(it.Key[len(it.Key)-8:]))
		}
	}
	damaged := false
	for it, err := range svc.db.Scan(ctx, tenant, records.Session.All()) {
		if err != nil {
			return err
		}
		var h Head
		if it.Damaged || json.Unmarshal(it.Value, &h) != nil {
			damaged = true
		}
		delete(orphans, h.Incarnation)
	}
	b := store.Batch{Delete: [][]byte{job.Key}}
	for sinc := range orphans {
		if damaged {
			break
		}
		b.Put = append(b.Put, store.Pair{Key: records.SessionJob.Key(sinc), Value: pinc[:]})
		if len(b.Put) == records.SweepChunk { // the job stays, and finds the rest later
			b.Delete = nil
			break
		}
	}
	return svc.db.Commit(ctx, tenant, b)
}

// messageOwners returns all incarnations that messages are stored under.
func (svc *Service) messageOwners(ctx context.Context, tenant string) (map[ident.Incarnation]bool, error) {
	owners := map[ident.Incarnation]bool{}
	all := records.SessionRecords.All()
	for {
		first, err := svc.db.FirstKey(ctx, tenant, all)
		if err != nil || first == nil {
			return owners, err
		}
		sinc := ident.Incarnation(first.Key[2:])
		owners[sinc] = true
		all.From = records.SessionRecords.Under(sinc).To
	}
}
