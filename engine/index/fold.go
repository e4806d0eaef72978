package index

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Bounds of putting fresh documents into blocks.
const (
	foldAt     = 64      // fresh documents that are worth it
	foldChunk  = 1024    // documents in one batch
	foldWrites = 9000    // writes of one batch
	foldTerms  = 5000    // distinct terms of one batch
	foldBytes  = 6 << 20 // of one batch
	foldEpoch  = 512     // documents that leave an epoch until the next begins
)

// stepSpaces does one unit of work on the first of a tenant's indexes that has some: what the index's job says, and
// else it puts a chunk of fresh documents into blocks, or takes the postings of a dead one out.
func (svc *Service) stepSpaces(ctx context.Context, tenant string) (done bool, err error) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{records.FoldJob.All()}})
	if err != nil {
		return false, err
	}
	var failed error // Go on with the next index: an error here must not stop the others.
	for _, job := range r.Ranges[0] {
		done, err := svc.stepSpace(ctx, tenant, job)
		if failed = errors.Join(failed, err); done && err == nil || ctx.Err() != nil {
			return done, failed
		}
	}
	return false, failed
}

// stepSpace does one unit of one space's work, if there is any.
func (svc *Service) stepSpace(ctx context.Context, tenant string, job store.Item) (done bool, err error) {
	state := stateOf(job)
	if state == dropped {
		return true, records.LostRace(svc.dropPiece(ctx, tenant, job))
	}
	leave, err := svc.Queue(ctx, tenant, spaceOf(job.Key))
	if err != nil {
		return false, err
	}
	done, err = svc.foldSpace(ctx, tenant, job)
	leave()
	switch {
	case errors.Is(err, ErrBroken):
		return true, records.LostRace(svc.rebuild(ctx, tenant, job))
	case err == nil && !done && state == built:
		return true, records.LostRace(svc.buildPiece(ctx, tenant, job))
	}
	return done, records.LostRace(err)
}

// folding puts fresh documents of one space into blocks, as of one state of the space.
type folding struct {
	Space
	svc    *Service
	ctx    context.Context
	tenant string
	corpus corpusRecord
	epoch  uint32
	expect []store.Expect // the space's job, its corpus and its epoch, as they were read
}

// foldSpace removes the postings of a dead document, or puts fresh documents into blocks where there are enough of
// them, or where they have waited since an earlier epoch. Few fresh documents are searched as they are.
func (svc *Service) foldSpace(ctx context.Context, tenant string, job store.Item) (done bool, err error) {
	s := spaceOf(job.Key)
	record, corpus, err := svc.readCorpus(ctx, tenant, s)
	if err != nil {
		return false, err
	}
	fresh, dead := s.fresh(corpus.Oldest), records.RecallDead.Under2(s.Project, s.Kind)
	fresh.Limit, fresh.KeysOnly, dead.Limit = foldAt, true, 1
	q := store.Query{Keys: [][]byte{s.epochKey()}, Ranges: []store.Range{fresh, dead}}
	r, err := svc.db.Store.Read(ctx, tenant, q)
	if err != nil {
		return false, err
	}
	epoch, err := readEpoch(r.Keys[0])
	if err != nil {
		return false, err
	}
	if dead := r.Ranges[1]; len(dead) > 0 {
		return true, svc.removeDead(ctx, tenant, s, dead[0].Key)
	}
	waiting := r.Ranges[0]
	if len(waiting) < foldAt && (len(waiting) == 0 || epochOf(waiting[0].Key) >= epoch) {
		return false, nil
	}
	f := &folding{Space: s, svc: svc, ctx: ctx, tenant: tenant, corpus: corpus, epoch: epoch}
	for _, it := range []store.Item{job, record, r.Keys[0]} {
		f.expect = append(f.expect, store.Expect{Key: it.Key, Value: it.Value})
	}
	return true, f.fold(foldChunk)
}

// removeDead takes the postings of a document that is gone out of the blocks.
func (svc *Service) removeDead(ctx context.Context, tenant string, s Space, dead []byte) error {
	t := svc.db.Begin(ctx, tenant)
	_, err := svc.Change(t, s, func() error {
		got, err := t.Look(s.documentKey(placeOf(dead)), s.corpusKey(), dead)
		if err != nil {
			return err
		}
		t.Delete(dead)
		if !there(got[0]) {
			return nil
		}
		corpus, err := decodeCorpus(got[1])
		if err != nil {
			return err
		}
		d := readDocument(got[0], true)
		if d == nil {
			return ErrBroken
		}
		if err := s.removePostings(t, d); err != nil {
			return err
		}
		t.Delete(got[0].Key)
		corpus.Version++
		return t.PutJSON(s.corpusKey(), corpus)
	})
	if err != nil {
		return err
	}
	return svc.db.Commit(ctx, tenant, t.Batch)
}

// fold puts the first fresh documents into blocks, at most so many. Where the batch gets too large it begins again with
// half of them.
func (f *folding) fold(limit int) error {
	rng := f.fresh(f.corpus.Oldest)
	rng.Limit = limit + 1
	r, err := f.svc.db.Store.Read(f.ctx, f.tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return err
	}
	b := store.Batch{Expect: slices.Clone(f.expect)}
	corpus := f.corpus
	corpus.Oldest = f.epoch // unless documents of an earlier one are left
	added := map[string][]rank.Posting{}
	size := 0
	for _, it := range r.Ranges[0] {
		d := readDocument(it, true)
		if d == nil {
			return ErrBroken
		}
		size += 2 * (len(it.Key) + len(it.Value))
		if n := len(b.Put); n == limit || n > 0 && (size > foldBytes/2 || len(added)+len(d.Terms) > foldTerms) {
			corpus.Oldest = epochOf(it.Key)
			break
		}
		for _, t := range d.Terms {
			added[t.Term] = append(added[t.Term], d.Posting(t.Count))
		}
		corpus.Documents++
		corpus.Terms += uint64(d.Len)
		b.Expect = append(b.Expect, store.Expect{Key: it.Key, Value: it.Value})
		b.Delete = append(b.Delete, it.Key)
		b.Put = append(b.Put, store.Pair{Key: f.documentKey(d.Place), Value: it.Value})
	}
	documents := len(b.Put)
	corpus.Version++
	if corpus.Folded += documents; corpus.Folded >= foldEpoch {
		corpus.Folded = 0
		b.Put = append(b.Put, store.Pair{Key: f.epochKey(), Value: binary.BigEndian.AppendUint32(nil, f.epoch+1)})
	}
	value, err := json.Marshal(corpus)
	if err != nil {
		return err
	}
	b.Put = append(b.Put, store.Pair{Key: f.corpusKey(), Value: value})
	blocks, err := f.addPostings(added)
	if err != nil {
		return err
	}
	for _, block := range blocks {
		size += len(block.Key) + len(block.Value)
	}
	if b.Put = append(b.Put, blocks...); documents > 1 && (size > foldBytes || len(b.Put)+len(b.Delete) > foldWrites) {
		return f.fold(documents / 2)
	}
	return f.svc.db.Commit(f.ctx, f.tenant, b)
}

// addPostings gives the blocks that change where postings are added to terms. Each round reads, for every term that has
// postings left, the block that its last posting belongs in.
func (f *folding) addPostings(added map[string][]rank.Posting) (out []store.Pair, err error) {
	terms := slices.Sorted(maps.Keys(added))
	for _, ps := range added {
		slices.SortFunc(ps, func(a, b rank.Posting) int { return a.Compare(b.Place) })
	}
	for len(terms) > 0 {
		q := store.Query{Ranges: make([]store.Range, len(terms))}
		for i, term := range terms {
			ps := added[term]
			q.Ranges[i] = f.block(term, ps[len(ps)-1].Place)
		}
		r, err := f.svc.db.Store.Read(f.ctx, f.tenant, q)
		if err != nil {
			return nil, err
		}
		rest := terms[:0]
		for i, term := range terms {
			ps := added[term]
			var block []rank.Posting
			var key []byte
			from := 0 // postings before it belong in earlier blocks
			if items := r.Ranges[i]; len(items) > 0 {
				key = items[0].Key
				from, _ = slices.BinarySearchFunc(ps, placeOf(key), rank.Posting.Compare)
				if block, err = rank.ReadBlock(nil, items[0].Value); err != nil {
					return nil, ErrBroken
				}
			}
			for n, chunk := range rank.Merge(block, ps[from:]) {
				if n > 0 || key == nil {
					key = f.blockKey(term, chunk[0].Place)
				}
				out = append(out, store.Pair{Key: key, Value: rank.AppendBlock(nil, chunk)})
			}
			if added[term] = ps[:from]; from > 0 {
				rest = append(rest, term)
			}
		}
		terms = rest
	}
	slices.SortFunc(out, func(a, b store.Pair) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	return out, nil
}
