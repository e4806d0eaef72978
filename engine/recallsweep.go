package engine

import (
	"context"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sweepTranscript removes a chunk of a deleted session from its project's index, and tells whether there was any.
func (e *Engine) sweepTranscript(ctx context.Context, tenant string, p, s incarnation) (more bool, err error) {
	if more, err := e.sweepFresh(ctx, tenant, p, s); more || err != nil {
		return more, err
	}
	folded := kindRecallDocument.Under3(p, recallTranscript, s.stream())
	folded.Limit, folded.KeysOnly = 32, true
	dead := kindRecallDead.Under3(p, recallTranscript, s.stream())
	dead.Limit = 1
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{folded, dead}})
	if err != nil {
		return false, err
	}
	if len(r.Ranges[1]) > 0 {
		return true, lostRace(e.removeDead(ctx, tenant, p, recallTranscript, r.Ranges[1][0]))
	}
	t := &tx{ctx: ctx, e: e, tenant: tenant, now: e.now()}
	done, err := t.changeIndex(p, recallTranscript, func() error {
		places := make([]rank.Place, len(r.Ranges[0]))
		for i, it := range r.Ranges[0] {
			places[i] = splitPlace(it.Key)
		}
		return t.removeDocuments(p, recallTranscript, 0, places)
	})
	if err != nil {
		return false, err
	}
	// Nothing is left, or the index is being dropped as a whole.
	if done && len(r.Ranges[0]) == 0 || !done && t.writes() == 0 {
		t.delete(kindRecallStream.Key(p, recallTranscript, s.stream()))
		t.delete(kindUnindexedJob.Key(p, s))
		err := e.commit(ctx, tenant, t.batch)
		return err != nil, lostRace(err)
	}
	return true, lostRace(e.commit(ctx, tenant, t.batch))
}

// sweepFresh removes what waits for its block of a deleted session, of which nothing can come any more.
func (e *Engine) sweepFresh(ctx context.Context, tenant string, p, s incarnation) (more bool, err error) {
	_, corpus, err := e.readCorpus(ctx, tenant, p, recallTranscript)
	if err != nil && !errors.Is(err, errBroken) {
		return false, err
	}
	rng := freshRange(p, recallTranscript, corpus.Oldest)
	rng.KeysOnly = true
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return false, err
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		if splitPlace(it.Key).Stream == s.stream() && len(b.Delete) < sweepChunk {
			b.Delete = append(b.Delete, it.Key)
		}
	}
	if len(b.Delete) == 0 {
		return false, nil
	}
	return true, e.commit(ctx, tenant, b)
}

// sweepRecall removes a chunk of a deleted project's indexes and of their jobs, and tells whether there was any.
func (e *Engine) sweepRecall(ctx context.Context, tenant string, p incarnation) (more bool, err error) {
	for _, prefix := range [][]byte{recallRecords.Under(p).From, kindFoldJob.Under(p).From, kindUnindexedJob.Under(p).From, kindBacklogJob.Key(p)} {
		if more, err := e.deleteRange(ctx, tenant, prefixRange(prefix)); more || err != nil {
			return more, err
		}
	}
	return false, nil
}
