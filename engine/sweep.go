package engine

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sweepSession removes a chunk of a deleted session's data. The last chunk also removes the job.
func (e *Engine) sweepSession(ctx context.Context, tenant string, job store.Item) error {
	sinc, ok := records.SessionJob.Split(job.Key)
	if !ok {
		return records.ErrDamaged
	}
	if more, err := e.db.DeleteRange(ctx, tenant, records.SessionRecords.Under(sinc)); more || err != nil {
		return err
	}
	// A damaged job does not say which project it belongs to. Decisions then remain until their retention ends,
	// because an error would block the other jobs.
	if len(job.Value) == 8 {
		pinc := ident.Incarnation(job.Value)
		if more, err := e.Index.SweepTranscript(ctx, tenant, pinc, sinc); more || err != nil {
			return err
		}
		if err := e.Decisions.Purge(ctx, tenant, pinc, sinc[:], e.db.Now().AddDate(0, 0, 1)); err != nil {
			return err
		}
	}
	return e.db.Commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key, records.SummaryJob.Key(sinc)}})
}

// sweepProject creates jobs that sweep a deleted project's sessions, then removes its memories, its decisions and the
// job. It removes the index first, because the sweeps of the sessions would remove their documents from it one by
// one.
func (e *Engine) sweepProject(ctx context.Context, tenant string, job store.Item) error {
	pinc, ok := records.ProjectJob.Split(job.Key)
	if !ok {
		return records.ErrDamaged
	}
	for _, sweep := range []func(context.Context, string, ident.Incarnation) (more bool, err error){
		e.Index.Sweep, e.Sessions.SweepHeads, e.Memories.Sweep, e.Decisions.Sweep, e.Dialogues.Sweep, e.Stats.Sweep,
		e.Projects.Sweep} {
		if more, err := sweep(ctx, tenant, pinc); more || err != nil {
			return err
		}
	}
	return e.db.Commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key}})
}

// sweepTenant removes a chunk of a deleted tenant's space, and finally its record, which frees the id.
func (e *Engine) sweepTenant(ctx context.Context, _ string, job store.Item) error {
	tenant, ok := records.TenantJob.Split(job.Key)
	if !ok {
		return records.ErrDamaged
	}
	synced := store.Range{To: []byte{store.Loose}}
	if more, err := e.db.DeleteRange(ctx, tenant, synced); more || err != nil {
		return err
	}
	if more, err := e.db.DeleteRange(ctx, tenant, store.Range{From: []byte{store.Loose}}); more || err != nil {
		return err
	}
	return e.db.Commit(ctx, records.SystemTenant, store.Batch{Delete: [][]byte{records.Tenant.Key(tenant), job.Key}})
}
