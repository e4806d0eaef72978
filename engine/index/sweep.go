package index

import (
	"context"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// SweepTranscript removes a chunk of a deleted session from its project's index, and tells whether there was any.
func (svc *Service) SweepTranscript(ctx context.Context, tenant string, p, s ident.Incarnation) (more bool, err error) {
	if more, err := svc.sweepFresh(ctx, tenant, p, s); more || err != nil {
		return more, err
	}
	folded := records.RecallDocument.Under3(p, records.RecallTranscript, s.Stream())
	folded.Limit, folded.KeysOnly = 32, true
	dead := records.RecallDead.Under3(p, records.RecallTranscript, s.Stream())
	dead.Limit = 1
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{folded, dead}})
	if err != nil {
		return false, err
	}
	if len(r.Ranges[1]) > 0 {
		return true, records.LostRace(svc.removeDead(ctx, tenant, p, records.RecallTranscript, r.Ranges[1][0]))
	}
	t := svc.db.Begin(ctx, tenant)
	done, err := svc.Change(t, p, records.RecallTranscript, func() error {
		places := make([]rank.Place, len(r.Ranges[0]))
		for i, it := range r.Ranges[0] {
			places[i] = splitPlace(it.Key)
		}
		return svc.removeDocuments(t, p, records.RecallTranscript, 0, places)
	})
	if err != nil {
		return false, err
	}
	// Nothing is left, or the index is being dropped as a whole.
	if done && len(r.Ranges[0]) == 0 || !done && t.Writes() == 0 {
		t.Delete(records.RecallStream.Key(p, records.RecallTranscript, s.Stream()))
		t.Delete(records.UnindexedJob.Key(p, s))
		err := svc.db.Commit(ctx, tenant, t.Batch)
		return err != nil, records.LostRace(err)
	}
	return true, records.LostRace(svc.db.Commit(ctx, tenant, t.Batch))
}

// sweepFresh removes what waits for its block of a deleted session, of which nothing can come any more.
func (svc *Service) sweepFresh(ctx context.Context, tenant string, p, s ident.Incarnation) (more bool, err error) {
	_, corpus, err := svc.readCorpus(ctx, tenant, p, records.RecallTranscript)
	if err != nil && !errors.Is(err, ErrBroken) {
		return false, err
	}
	rng := freshRange(p, records.RecallTranscript, corpus.Oldest)
	rng.KeysOnly = true
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return false, err
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		if splitPlace(it.Key).Stream == s.Stream() && len(b.Delete) < records.SweepChunk {
			b.Delete = append(b.Delete, it.Key)
		}
	}
	if len(b.Delete) == 0 {
		return false, nil
	}
	return true, svc.db.Commit(ctx, tenant, b)
}

// SweepRecall removes a chunk of a deleted project's indexes and of their jobs, and tells whether there was any.
func (svc *Service) SweepRecall(ctx context.Context, tenant string, p ident.Incarnation) (more bool, err error) {
	for _, prefix := range [][]byte{records.RecallRecords.Under(p).From, records.FoldJob.Under(p).From, records.UnindexedJob.Under(p).From, records.BacklogJob.Key(p)} {
		if more, err := svc.db.DeleteRange(ctx, tenant, records.PrefixRange(prefix)); more || err != nil {
			return more, err
		}
	}
	return false, nil
}
