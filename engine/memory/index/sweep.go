package index

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// sessionChunk is how many documents of a deleted session, or of superseded messages, one step marks as dead.
const sessionChunk = 256

// SweepTranscript removes a chunk of a deleted session from its project's index, and reports whether there may be more.
func (svc *Service) SweepTranscript(ctx context.Context, tenant string, project, session ident.Incarnation) (
	more bool, err error,
) {
	s := Transcripts(project)
	at, err := svc.transcriptAt(ctx, tenant, s, session)
	if err != nil {
		return false, err
	}
	stream := streamOf(at)
	if more, err := svc.sweepFresh(ctx, tenant, s, stream); more || err != nil {
		return more, err
	}
	t := svc.db.Begin(ctx, tenant)
	var places []rank.Place
	dead, err := svc.deadOf(t, s, stream)
	if err != nil {
		return false, err
	}
	folded := records.RecallDocument.Under3(project, s.Kind, stream)
	folded.KeysOnly = true
	for it, err := range svc.db.Scan(ctx, tenant, folded) {
		if err != nil {
			return false, err
		}
		if at := placeOf(it.Key); !dead[at] {
			places = append(places, at)
		}
		if len(places) == sessionChunk {
			break
		}
	}
	if len(places) == 0 && len(dead) > 0 {
		if settled, err := svc.Settle(ctx, tenant, s); settled || err != nil {
			return true, err
		}
	}
	changed, err := svc.Change(t, s, func() error { return svc.removeDocuments(t, s, 0, places) })
	if err != nil {
		return false, err
	}
	// Stop if nothing is left, or if the index is being dropped as a whole.
	end := changed && len(places) == 0 || !changed && t.Writes() == 0
	if end {
		t.Delete(s.StreamKey(at))
		t.Delete(records.UnindexedJob.Key(project, session))
	}
	err = svc.db.Commit(ctx, tenant, t.Batch)
	return !end || err != nil, records.LostRace(err)
}

// transcriptAt returns the stream of a session's messages, as a place without a position. If the record that names its
// namespace is damaged, the space is rebuilt without the session.
func (svc *Service) transcriptAt(ctx context.Context, tenant string, s Space, session ident.Incarnation) (
	rank.Place, error) {
	at := rank.Place{Stream: session.Stream()}
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{s.StreamKey(at), s.jobKey()}})
	if err != nil || !there(r.Keys[0]) {
		return at, err
	}
	var state struct {
		Namespace uint64 `json:"namespace"`
	}
	if r.Keys[0].Damaged || json.Unmarshal(r.Keys[0].Value, &state) != nil {
		if stateOf(r.Keys[1]) != dropped {
			err = records.LostRace(svc.rebuild(ctx, tenant, r.Keys[1]))
		}
		return at, err
	}
	at.Namespace = state.Namespace
	return at, nil
}

// sweepFresh removes a chunk of a deleted session's fresh documents. No more are added to them.
func (svc *Service) sweepFresh(ctx context.Context, tenant string, s Space, stream records.Stream) (more bool, err error) {
	_, corpus, err := svc.readCorpus(ctx, tenant, s)
	if err != nil && !errors.Is(err, ErrBroken) {
		return false, err
	}
	rng := s.fresh(corpus.Oldest)
	rng.KeysOnly = true
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return false, err
	}
	var b store.Batch
	for _, it := range r.Ranges[0] {
		if streamOf(placeOf(it.Key)) == stream && len(b.Delete) < records.SweepChunk {
			b.Delete = append(b.Delete, it.Key)
		}
	}
	if len(b.Delete) == 0 {
		return false, nil
	}
	return true, svc.db.Commit(ctx, tenant, b)
}

// RemoveDocuments removes a chunk of a stream's documents from a space: those for whose numbers gone returns true. It
// returns how many it removed, and whether there may be more. No document has a number lower than oldest, and documents
// are ordered by number.
func (svc *Service) RemoveDocuments(t *records.Tx, s Space, stream records.Stream, oldest uint64, gone func(number uint64) bool) (
	n int, more bool, err error) {
	corpus, err := t.Look(s.corpusKey())
	if err != nil {
		return 0, false, err
	}
	in, err := decodeCorpus(corpus[0])
	if err != nil {
		return 0, false, err
	}
	places := map[uint32][]rank.Place{} // by the epoch of fresh ones
	take := func(it store.Item, epoch uint32) (older bool, err error) {
		d := readDocument(it, false)
		if d == nil {
			return false, ErrBroken
		}
		if gone(d.Number) && n < sessionChunk {
			places[epoch] = append(places[epoch], d.Place)
			n++
		}
		return d.Number < oldest || n == sessionChunk, nil
	}
	for it, err := range svc.db.Scan(t.Ctx, t.Tenant, s.fresh(in.Oldest)) {
		if err != nil {
			return 0, false, err
		}
		if streamOf(placeOf(it.Key)) == stream {
			if _, err := take(it, epochOf(it.Key)); err != nil {
				return 0, false, err
			}
		}
	}
	if n == 0 { // Documents are put into blocks by a change of the corpus, which was read before.
		folded := records.RecallDocument.Under3(s.Project, s.Kind, stream)
		folded.Reverse = true
		dead, err := svc.deadOf(t, s, stream)
		if err != nil {
			return 0, false, err
		}
		for it, err := range svc.db.Scan(t.Ctx, t.Tenant, folded) {
			if err != nil {
				return 0, false, err
			}
			if dead[placeOf(it.Key)] {
				continue
			}
			if end, err := take(it, 0); end || err != nil {
				if err != nil {
					return 0, false, err
				}
				break
			}
		}
	}
	for epoch, some := range places {
		if err := svc.removeDocuments(t, s, epoch, some); err != nil {
			return 0, false, err
		}
	}
	return n, n > 0, nil
}

// deadOf returns the places of a stream's documents that are marked as dead.
func (svc *Service) deadOf(t *records.Tx, s Space, stream records.Stream) (map[rank.Place]bool, error) {
	_, corpus, err := svc.readCorpus(t.Ctx, t.Tenant, s)
	if err != nil && !errors.Is(err, ErrBroken) {
		return nil, err
	}
	rng := s.dead(corpus.Oldest)
	rng.KeysOnly = true
	dead := map[rank.Place]bool{}
	for it, err := range svc.db.Scan(t.Ctx, t.Tenant, rng) {
		if err != nil {
			return nil, err
		}
		if at := placeOf(it.Key); streamOf(at) == stream {
			dead[at] = true
		}
	}
	return dead, nil
}

// Sweep deletes a chunk of a deleted project's indexes and their jobs, and reports whether there was any.
func (svc *Service) Sweep(ctx context.Context, tenant string, project ident.Incarnation) (more bool, err error) {
	for _, rng := range []store.Range{records.RecallRecords.Under(project), records.FoldJob.Under(project),
		records.UnindexedJob.Under(project), records.PrefixRange(records.BacklogJob.Key(project))} {
		if more, err := svc.db.DeleteRange(ctx, tenant, rng); more || err != nil {
			return more, err
		}
	}
	return false, nil
}
