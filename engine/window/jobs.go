package window

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Units are the background work of windows.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{jobs.FirstJob(records.DecisionsJob.All(), svc.sweepDecisions)}
}

// Dailies are what goes by age of windows.
func (svc *Service) Dailies() []jobs.Daily {
	return []jobs.Daily{
		{Name: "decisions", Piece: svc.projects.OfEach(svc.expireDecisions)},
		{Name: "decisions_of_deleted_projects", Piece: svc.expireOrphans},
	}
}

// expireDecisions removes a chunk of decisions that are past their project's retention.
func (svc *Service) expireDecisions(ctx context.Context, tenant string, p *project.Record, s project.Settings, _ []byte) (int, []byte,
	error) {
	oldest := records.Day(svc.db.Now().AddDate(0, 0, -s.DecisionRetentionDays))
	for _, rng := range []store.Range{
		{From: records.Decision.Under(p.Incarnation).From, To: records.Decision.Under2(p.Incarnation, oldest).From},
		{From: records.Effective.Under(p.Incarnation).From, To: records.Effective.Key(p.Incarnation, oldest, [16]byte{})},
	} {
		if n, err := svc.db.DeleteSome(ctx, tenant, rng); n > 0 || err != nil {
			return n, []byte{1}, err
		}
	}
	return 0, nil, nil
}

// expireOrphans removes a chunk of decisions of projects that are no more: a window may have been answered while its
// project was being deleted.
func (svc *Service) expireOrphans(ctx context.Context, tenant string, _ []byte) (int, []byte, error) {
	living, err := svc.projects.Living(ctx, tenant)
	if err != nil {
		return 0, nil, err
	}
	for _, kind := range []byte{'d', 'e'} {
		all := records.PrefixRange([]byte{store.Loose, kind})
		for {
			first, err := svc.db.FirstKey(ctx, tenant, all)
			if err != nil {
				return 0, nil, err
			}
			if first == nil {
				break
			}
			of := records.PrefixRange(first.Key[:2+8])
			if !living[ident.Incarnation(first.Key[2:2+8])] {
				n, err := svc.db.DeleteSome(ctx, tenant, of)
				if err != nil {
					return 0, nil, err
				}
				return n, []byte{1}, nil
			}
			all.From = of.To
		}
	}
	return 0, nil, nil
}

// Sweep removes a chunk of a deleted project's decisions and what they share, and tells whether there was any.
func (svc *Service) Sweep(ctx context.Context, tenant string, pinc ident.Incarnation) (more bool, err error) {
	for _, prefix := range [][]byte{records.Decision.Under(pinc).From, records.Effective.Under(pinc).From} {
		if more, err := svc.db.DeleteRange(ctx, tenant, records.PrefixRange(prefix)); more || err != nil {
			return more, err
		}
	}
	return false, nil
}

// sweepDecisions empties the decisions of a project that were made up to the moment that its job names.
func (svc *Service) sweepDecisions(ctx context.Context, tenant string, job store.Item) error {
	pinc, ok := records.DecisionsJob.Split(job.Key)
	if !ok || job.Damaged || len(job.Value) != 8 {
		return records.ErrDamaged
	}
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(job.Value)))
	if err := svc.PurgeDecisions(ctx, tenant, pinc, nil, until); err != nil {
		return err
	}
	return svc.db.Commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key}})
}

// PurgeDecisions empties a project's decisions made up to a moment, those of one session or, with none, of all, over
// the days that any can lie in.
func (svc *Service) PurgeDecisions(ctx context.Context, tenant string, pinc ident.Incarnation, session []byte,
	until time.Time) error {
	oldest, err := svc.db.FirstKey(ctx, tenant, records.Decision.Under(pinc))
	if err != nil || oldest == nil {
		return err
	}
	for d := decisionDay(oldest.Key); d <= records.Day(until)+1; d++ {
		rng := records.PrefixRange(append(records.Decision.Under2(pinc, d).From, session...))
		rng.Limit, rng.KeysOnly = records.SweepChunk, true
		for {
			r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
			if err != nil {
				return err
			}
			found := r.Ranges[0]
			if len(found) == 0 {
				break
			}
			if err := svc.emptyDecisions(ctx, tenant, found, until); err != nil {
				return err
			}
			rng.From = append(found[len(found)-1].Key, 0)
		}
	}
	return nil
}

// emptyDecisions leaves of decisions made up to a moment only that they are purged.
func (svc *Service) emptyDecisions(ctx context.Context, tenant string, found []store.Item, until time.Time) error {
	var b store.Batch
	for _, it := range found {
		if !decisionMade(it.Key).After(until) {
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: []byte(purged)})
		}
	}
	if len(b.Put) == 0 {
		return nil
	}
	svc.db.Removed.Loose.Store(true)
	return svc.db.Commit(ctx, tenant, b)
}
