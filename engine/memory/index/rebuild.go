package index

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// An index can be rebuilt from its source. So a damaged record of it never fails a request: the space of that record is
// dropped and rebuilt, a piece at a time, and meanwhile queries say that hits may be missing. The space's job stores
// the progress. Every change of the space expects the job as it read it, so nothing that was read before a rebuild is
// written after it.

// The state of a space is the first byte of its job. It is followed by the generation, which changes with every
// rebuild, and, while a space is being built, the place reached.
const (
	ready   = iota
	dropped // Its records are being deleted, and changes are not indexed.
	built   // Its source is being indexed again, and changes are indexed as usual.
)

const generationSize = 8

// stateOf reads a space's job. A space whose job is damaged may be in any state, so it is dropped.
func stateOf(job store.Item) byte {
	switch {
	case job.Damaged:
		return dropped
	case len(job.Value) <= generationSize:
		return ready
	}
	return job.Value[0]
}

// Source indexes a piece of the source of a space, starting after a place. It returns the place where the next piece
// begins, or "" at the end.
type Source func(ctx context.Context, tenant string, project ident.Incarnation, after string) (next string, err error)

// rebuilding returns the value of the job of a space that is to be dropped and rebuilt.
func (svc *Service) rebuilding() []byte {
	value := make([]byte, 1+generationSize)
	value[0] = dropped
	svc.db.Random(value[1:])
	return value
}

// startRebuild starts a rebuild of a space, in the batch that found the damage.
func (svc *Service) startRebuild(t *records.Tx, s Space) {
	svc.logBroken(t.Tenant, s)
	t.Put(s.jobKey(), svc.rebuilding())
}

// rebuild starts a rebuild of the space whose job was read. A space without a job was deleted with its project, and one
// whose job is damaged already counts as dropped.
func (svc *Service) rebuild(ctx context.Context, tenant string, job store.Item) error {
	if job.Damaged || job.Value == nil {
		return nil
	}
	svc.logBroken(tenant, spaceOf(job.Key))
	return svc.moveJob(ctx, tenant, job, svc.rebuilding())
}

func (svc *Service) logBroken(tenant string, s Space) {
	svc.db.Log.Error("a recall index is damaged or from an earlier version, and is being rebuilt", "tenant", tenant, "space", string(s.Kind))
}

// moveJob writes a new value of a space's job, if it has not changed since it was read.
func (svc *Service) moveJob(ctx context.Context, tenant string, job store.Item, value []byte) error {
	return svc.db.Commit(ctx, tenant, store.Batch{Expect: []store.Expect{{Key: job.Key, Value: job.Value}},
		Put: []store.Pair{{Key: job.Key, Value: value}}})
}

// dropPiece deletes some of a space's records, and starts building the space once there are none.
func (svc *Service) dropPiece(ctx context.Context, tenant string, job store.Item) error {
	if job.Damaged {
		return svc.db.Commit(ctx, tenant, store.Batch{Put: []store.Pair{{Key: job.Key, Value: svc.rebuilding()}}})
	}
	s := spaceOf(job.Key)
	rng := records.PrefixRange(append(records.RecallRecords.Under(s.Project).From, s.Kind))
	rng.KeysOnly, rng.Limit = true, records.SweepChunk
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return err
	}
	if len(r.Ranges[0]) == 0 {
		return svc.moveJob(ctx, tenant, job, inState(job, built, ""))
	}
	b := store.Batch{Expect: []store.Expect{{Key: job.Key, Value: job.Value}}}
	for _, it := range r.Ranges[0] {
		b.Delete = append(b.Delete, it.Key)
	}
	svc.db.Removed.Main.Store(true)
	return svc.db.Commit(ctx, tenant, b)
}

// buildPiece indexes a piece of the source of a space.
func (svc *Service) buildPiece(ctx context.Context, tenant string, job store.Item) error {
	s := spaceOf(job.Key)
	next, err := svc.Sources[s.Kind](ctx, tenant, s.Project, string(job.Value[1+generationSize:]))
	if err != nil {
		return err
	}
	state := byte(built)
	if next == "" {
		state = ready
	}
	return svc.moveJob(ctx, tenant, job, inState(job, state, next))
}

// inState returns the value of a space's job in another state of the same generation.
func inState(job store.Item, state byte, place string) []byte {
	value := append([]byte{state}, job.Value[1:1+generationSize]...)
	return append(value, place...)
}
