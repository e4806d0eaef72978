package engine

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sweepSession removes a chunk of a deleted session, and its job with the last one.
func (e *Engine) sweepSession(ctx context.Context, tenant string, job store.Item) error {
	sinc, ok := kindSessionJob.Split(job.Key)
	if !ok {
		return errDamaged
	}
	if more, err := e.deleteRange(ctx, tenant, sessionRecords.Under(sinc)); more || err != nil {
		return err
	}
	// Where the job's value is damaged, decisions go when their retention ends: an error would hold up the other jobs.
	if len(job.Value) == 8 {
		pinc := incarnation(job.Value)
		if more, err := e.sweepTranscript(ctx, tenant, pinc, sinc); more || err != nil {
			return err
		}
		if err := e.purgeDecisions(ctx, tenant, pinc, sinc[:], e.now().AddDate(0, 0, 1)); err != nil {
			return err
		}
	}
	return e.commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key, kindSummaryJob.Key(sinc)}})
}

// sweepProject turns a deleted project's sessions into session sweeps, then removes its memories, its decisions and its
// job. Its index goes first, because the sweeps of the sessions would take their documents out one by one.
func (e *Engine) sweepProject(ctx context.Context, tenant string, job store.Item) error {
	pinc, ok := kindProjectJob.Split(job.Key)
	if !ok {
		return errDamaged
	}
	for _, sweep := range []func(context.Context, string, incarnation) (more bool, err error){
		e.sweepRecall, e.sweepHeads, e.sweepMemories, e.sweepWindows} {
		if more, err := sweep(ctx, tenant, pinc); more || err != nil {
			return err
		}
	}
	return e.commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key}})
}

// sweepTenant removes a chunk of a deleted tenant's space, and at the end its record, which frees the id.
func (e *Engine) sweepTenant(ctx context.Context, _ string, job store.Item) error {
	tenant, ok := kindTenantJob.Split(job.Key)
	if !ok {
		return errDamaged
	}
	synced := store.Range{To: []byte{store.Loose}}
	if more, err := e.deleteRange(ctx, tenant, synced); more || err != nil {
		return err
	}
	if more, err := e.deleteRange(ctx, tenant, store.Range{From: []byte{store.Loose}}); more || err != nil {
		return err
	}
	return e.commit(ctx, systemTenant, store.Batch{Delete: [][]byte{kindTenant.Key(tenant), job.Key}})
}
