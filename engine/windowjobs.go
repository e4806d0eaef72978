package engine

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// windowUnits are the background work of windows.
func (e *Engine) windowUnits() []unit {
	return []unit{firstJob(kindDecisionsJob.All(), e.sweepDecisions)}
}

// windowDailies are what goes by age of windows.
func (e *Engine) windowDailies() []daily {
	return []daily{
		{"decisions", e.ofEachProject(e.expireDecisions)},
		{"decisions_of_deleted_projects", e.expireOrphans},
	}
}

// expireDecisions removes a chunk of decisions that are past their project's retention.
func (e *Engine) expireDecisions(ctx context.Context, tenant string, p *project, s Settings, _ []byte) (int, []byte,
	error) {
	oldest := day(e.now().AddDate(0, 0, -s.DecisionRetentionDays))
	for _, rng := range []store.Range{
		{From: kindDecision.Under(p.Incarnation).From, To: kindDecision.Under2(p.Incarnation, oldest).From},
		{From: kindEffective.Under(p.Incarnation).From, To: kindEffective.Key(p.Incarnation, oldest, [16]byte{})},
	} {
		if n, err := e.deleteSome(ctx, tenant, rng); n > 0 || err != nil {
			return n, []byte{1}, err
		}
	}
	return 0, nil, nil
}

// expireOrphans removes a chunk of decisions of projects that are no more: a window may have been answered while its
// project was being deleted.
func (e *Engine) expireOrphans(ctx context.Context, tenant string, _ []byte) (int, []byte, error) {
	living, err := e.livingProjects(ctx, tenant)
	if err != nil {
		return 0, nil, err
	}
	for _, kind := range []byte{'d', 'e'} {
		all := prefixRange([]byte{store.Loose, kind})
		for {
			first, err := e.firstKey(ctx, tenant, all)
			if err != nil {
				return 0, nil, err
			}
			if first == nil {
				break
			}
			of := prefixRange(first.Key[:2+8])
			if !living[incarnation(first.Key[2:2+8])] {
				n, err := e.deleteSome(ctx, tenant, of)
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

// sweepWindows removes a chunk of a deleted project's decisions and what they share, and tells whether there was any.
func (e *Engine) sweepWindows(ctx context.Context, tenant string, pinc incarnation) (more bool, err error) {
	for _, prefix := range [][]byte{kindDecision.Under(pinc).From, kindEffective.Under(pinc).From} {
		if more, err := e.deleteRange(ctx, tenant, prefixRange(prefix)); more || err != nil {
			return more, err
		}
	}
	return false, nil
}

// sweepDecisions empties the decisions of a project that were made up to the moment that its job names.
func (e *Engine) sweepDecisions(ctx context.Context, tenant string, job store.Item) error {
	pinc, ok := kindDecisionsJob.Split(job.Key)
	if !ok || job.Damaged || len(job.Value) != 8 {
		return errDamaged
	}
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(job.Value)))
	if err := e.purgeDecisions(ctx, tenant, pinc, nil, until); err != nil {
		return err
	}
	return e.commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key}})
}

// purgeDecisions empties a project's decisions made up to a moment, those of one session or, with none, of all, over
// the days that any can lie in.
func (e *Engine) purgeDecisions(ctx context.Context, tenant string, pinc incarnation, session []byte,
	until time.Time) error {
	oldest, err := e.firstKey(ctx, tenant, kindDecision.Under(pinc))
	if err != nil || oldest == nil {
		return err
	}
	for d := decisionDay(oldest.Key); d <= day(until)+1; d++ {
		rng := prefixRange(append(kindDecision.Under2(pinc, d).From, session...))
		rng.Limit, rng.KeysOnly = sweepChunk, true
		for {
			r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
			if err != nil {
				return err
			}
			found := r.Ranges[0]
			if len(found) == 0 {
				break
			}
			if err := e.emptyDecisions(ctx, tenant, found, until); err != nil {
				return err
			}
			rng.From = append(found[len(found)-1].Key, 0)
		}
	}
	return nil
}

// emptyDecisions leaves of decisions made up to a moment only that they are purged.
func (e *Engine) emptyDecisions(ctx context.Context, tenant string, found []store.Item, until time.Time) error {
	var b store.Batch
	for _, it := range found {
		if !decisionMade(it.Key).After(until) {
			b.Put = append(b.Put, store.Pair{Key: it.Key, Value: []byte(purged)})
		}
	}
	if len(b.Put) == 0 {
		return nil
	}
	e.removed.loose.Store(true)
	return e.commit(ctx, tenant, b)
}
