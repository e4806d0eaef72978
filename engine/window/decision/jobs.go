package decision

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Units returns the background work on decisions.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{jobs.FirstJob(records.DecisionsJob.All(), svc.purgeAsked)}
}

// Dailies returns the daily work: deleting decisions by age.
func (svc *Service) Dailies() []jobs.Daily {
	return []jobs.Daily{
		{Name: "decisions", Piece: svc.projects.OfEach(svc.expire)},
		{Name: "decisions_of_deleted_projects", Piece: svc.expireOrphans},
	}
}

// expire deletes some of the decisions that are past their project's retention, and then some of the records that they
// share.
func (svc *Service) expire(ctx context.Context, tenant string, p *project.Record, s project.Settings, _ []byte) (int,
	[]byte, error) {
	oldest := records.Day(svc.db.Settled().AddDate(0, 0, -s.DecisionRetentionDays))
	for _, rng := range []store.Range{
		{From: records.Decision.Under(p.Incarnation).From, To: records.Decision.Under2(p.Incarnation, oldest).From},
		{From: records.DecisionRow.Under(p.Incarnation).From,
			To: records.DecisionRow.Under2(p.Incarnation, oldest).From},
		{From: records.Effective.Under(p.Incarnation).From, To: records.Effective.Under2(p.Incarnation, oldest).From},
		{From: records.Trace.Under(p.Incarnation).From, To: records.Trace.Under2(p.Incarnation, oldest).From},
		{From: records.Calibration.Under(p.Incarnation).From,
			To: records.Calibration.Under2(p.Incarnation, oldest).From},
	} {
		if n, err := svc.db.DeleteSome(ctx, tenant, rng); n > 0 || err != nil {
			return n, []byte{1}, err
		}
	}
	return 0, nil, nil
}

// expireOrphans deletes some of the decisions of deleted projects: a window may have been stored while its project was
// being deleted.
func (svc *Service) expireOrphans(ctx context.Context, tenant string, _ []byte) (int, []byte, error) {
	living, err := svc.projects.Living(ctx, tenant)
	if err != nil {
		return 0, nil, err
	}
	for _, all := range []store.Range{records.Decision.All(), records.DecisionRow.All(), records.Effective.All(),
		records.Trace.All(), records.Calibration.All()} {
		for prefix := len(all.From); ; {
			first, err := svc.db.FirstKey(ctx, tenant, all)
			if err != nil {
				return 0, nil, err
			}
			if first == nil {
				break
			}
			of := records.PrefixRange(first.Key[:prefix+len(ident.Incarnation{})])
			if !living[ident.Incarnation(of.From[prefix:])] {
				n, err := svc.db.DeleteSome(ctx, tenant, of)
				return n, []byte{1}, err
			}
			all.From = of.To
		}
	}
	return 0, nil, nil
}

// Sweep deletes some of a deleted project's decisions and of the records that they share. It reports whether there were
// any.
func (svc *Service) Sweep(ctx context.Context, tenant string, pinc ident.Incarnation) (more bool, err error) {
	for _, rng := range []store.Range{records.Decision.Under(pinc), records.DecisionRow.Under(pinc),
		records.Effective.Under(pinc), records.Trace.Under(pinc), records.Calibration.Under(pinc)} {
		if more, err := svc.db.DeleteRange(ctx, tenant, rng); more || err != nil {
			return more, err
		}
	}
	return false, nil
}

// purgeAsked carries out a job that purges a project's decisions up to a time.
func (svc *Service) purgeAsked(ctx context.Context, tenant string, job store.Item) error {
	pinc, ok := records.DecisionsJob.Split(job.Key)
	if !ok || job.Damaged || len(job.Value) != 8 {
		return records.ErrDamaged
	}
	until := records.TimeOf(int64(binary.BigEndian.Uint64(job.Value)))
	if err := svc.Purge(ctx, tenant, pinc, nil, until); err != nil {
		return err
	}
	return svc.db.Commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key}})
}

// Purge deletes the contents of a project's decisions up to a time, and leaves marks that they were purged. With the
// incarnation of a session it does so only for that session. It reads all days that can have such decisions.
func (svc *Service) Purge(ctx context.Context, tenant string, pinc ident.Incarnation, sinc []byte,
	until time.Time) error {
	return svc.purgeDays(ctx, tenant, pinc, sinc, until, store.Range{KeysOnly: true, Limit: records.SweepChunk},
		func(_ store.Item, id ID) bool { return !id.made().After(until) })
}

// PurgeOf purges those decisions of a session that saw an extent of it which is not kept: they may have texts that are
// erased.
func (svc *Service) PurgeOf(ctx context.Context, tenant string, pinc, sinc ident.Incarnation,
	keep func(seen transcript.Extent) bool) error {
	purges := func(it store.Item, _ ID) bool {
		var r struct{ Extent Extent }
		return string(it.Value) != purged && string(it.Value) != unkept &&
			(json.Unmarshal(it.Value, &r) != nil || !keep(transcript.Extent(r.Extent)))
	}
	return svc.purgeDays(ctx, tenant, pinc, sinc[:], svc.db.Now(), store.Range{}, purges)
}

// purgeDays purges those decisions made up to the day after a time for which purges returns true. how says how they are
// read.
func (svc *Service) purgeDays(ctx context.Context, tenant string, pinc ident.Incarnation, sinc []byte, until time.Time,
	how store.Range, purges func(store.Item, ID) bool) error {
	oldest, err := svc.db.FirstKey(ctx, tenant, records.Decision.Under(pinc))
	if err != nil || oldest == nil {
		return err
	}
	_, first := splitKey(oldest.Key)
	for day := first.day; day <= records.Day(until)+1; day++ {
		rng := records.PrefixRange(append(records.Decision.Under2(pinc, day).From, sinc...))
		rng.KeysOnly, rng.Limit = how.KeysOnly, how.Limit
		if err := svc.purgeRange(ctx, tenant, rng, purges); err != nil {
			return err
		}
	}
	return nil
}

// purgeRange purges those decisions of a range for which purges returns true.
func (svc *Service) purgeRange(ctx context.Context, tenant string, rng store.Range, purges func(store.Item, ID) bool) error {
	var b store.Batch
	commit := func() error {
		if len(b.Put) == 0 {
			return nil
		}
		svc.db.Removed.Loose.Store(true)
		defer func() { b = store.Batch{} }()
		return svc.db.Commit(ctx, tenant, b)
	}
	for it, err := range svc.db.Scan(ctx, tenant, rng) {
		if err != nil {
			return err
		}
		if pinc, id := splitKey(it.Key); purges(it, id) {
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: []byte(purged)})
			b.Delete = append(b.Delete, id.rowKey(pinc))
		}
		if len(b.Put) == records.SweepChunk {
			if err := commit(); err != nil {
				return err
			}
		}
	}
	return commit()
}
