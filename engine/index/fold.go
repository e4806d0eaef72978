package index

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// How many documents are worth putting into blocks, how many are at most in one batch, and how large it may get.
const (
	foldAt     = 64
	foldChunk  = 1024
	foldWrites = 9000
	foldTerms  = 5000 // distinct ones
	foldBytes  = 6 << 20
	foldEpoch  = 512 // documents that leave an epoch until the next begins
)

// stepFold does one unit of work on any of a tenant's indexes: what their jobs say, and else it puts a chunk of fresh
// documents into blocks, or takes the postings of a dead one out.
func (svc *Service) stepFold(ctx context.Context, tenant string) (done bool, err error) {
	jobs := records.FoldJob.All()
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{jobs}})
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

// stepSpace does one unit of one space's job, if it is due.
func (svc *Service) stepSpace(ctx context.Context, tenant string, job store.Item) (done bool, err error) {
	state := stateOf(job)
	if state == dropped {
		return true, records.LostRace(svc.dropPiece(ctx, tenant, job))
	}
	done, err = svc.foldSpace(ctx, tenant, job)
	switch {
	case errors.Is(err, ErrBroken):
		return true, records.LostRace(svc.rebuildSpace(ctx, tenant, job))
	case err == nil && !done && state == built:
		return true, records.LostRace(svc.buildPiece(ctx, tenant, job))
	}
	return done, records.LostRace(err)
}

func (svc *Service) foldSpace(ctx context.Context, tenant string, job store.Item) (done bool, err error) {
	p, space := spaceOf(job.Key)
	record, corpus, err := svc.readCorpus(ctx, tenant, p, space)
	if err != nil {
		return false, err
	}
	fresh, dead := freshRange(p, space, corpus.Oldest), records.RecallDead.Under2(p, space)
	fresh.Limit, fresh.KeysOnly, dead.Limit = foldAt, true, 1
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{records.RecallEpoch.Key(p, space)},
		Ranges: []store.Range{fresh, dead}})
	if err != nil {
		return false, err
	}
	epoch, err := readEpoch(r.Keys[0])
	if err != nil {
		return false, err
	}
	waiting := r.Ranges[0]
	switch {
	case len(r.Ranges[1]) > 0:
		return true, svc.removeDead(ctx, tenant, p, space, r.Ranges[1][0])
	case len(waiting) >= foldAt, len(waiting) > 0 && freshEpoch(waiting[0].Key) < epoch:
		expect := []store.Expect{{Key: job.Key, Value: job.Value}, {Key: record.Key, Value: record.Value},
			{Key: r.Keys[0].Key, Value: r.Keys[0].Value}}
		return true, svc.fold(ctx, tenant, p, space, corpus, epoch, expect, foldChunk)
	}
	return false, nil // few enough to be searched as they are
}

// readCorpus reads what is in the blocks of a space, with its record.
func (svc *Service) readCorpus(ctx context.Context, tenant string, p ident.Incarnation, space byte) (
	it store.Item, c corpusRecord, err error,
) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Keys: [][]byte{records.RecallCorpus.Key(p, space)}})
	if err != nil {
		return it, c, err
	}
	c, err = decodeCorpus(r.Keys[0])
	return r.Keys[0], c, err
}

// freshRange covers the documents that wait for their block, from an epoch on.
func freshRange(p ident.Incarnation, space byte, oldest uint32) store.Range {
	rng := records.RecallFresh.Under2(p, space)
	rng.From = records.RecallFresh.Under3(p, space, oldest).From
	return rng
}

// removeDead takes the postings of a document that is gone out of the blocks.
func (svc *Service) removeDead(ctx context.Context, tenant string, p ident.Incarnation, space byte, dead store.Item) error {
	at := splitPlace(dead.Key)
	t := svc.db.Begin(ctx, tenant)
	_, err := svc.Change(t, p, space, func() error {
		corpusKey := records.RecallCorpus.Key(p, space)
		got, err := t.Look(records.RecallDocument.Key(p, space, at.Stream, at.Pos), corpusKey, dead.Key)
		if err != nil {
			return err
		}
		t.Delete(dead.Key)
		if got[0].Value == nil && !got[0].Damaged {
			return nil
		}
		corpus, err := decodeCorpus(got[1])
		if err != nil {
			return err
		}
		d := readDocument(at, got[0], true)
		if d == nil {
			return ErrBroken
		}
		if err := removePostings(t, p, space, d); err != nil {
			return err
		}
		t.Delete(got[0].Key)
		corpus.Version++
		return t.PutJSON(corpusKey, corpus)
	})
	if err != nil {
		return err
	}
	return svc.db.Commit(ctx, tenant, t.Batch)
}

// fold puts the first fresh documents of a space into blocks, at most so many. The batch expects the space's job, its
// corpus and its epoch as they were read.
func (svc *Service) fold(ctx context.Context, tenant string, p ident.Incarnation, space byte, corpus corpusRecord, epoch uint32,
	expect []store.Expect, limit int,
) error {
	rng := freshRange(p, space, corpus.Oldest)
	rng.Limit = limit + 1
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil || len(r.Ranges[0]) == 0 {
		return err
	}
	b := store.Batch{Expect: slices.Clone(expect)}
	folded := corpus
	folded.Oldest = epoch // that is left
	added := map[string][]rank.Posting{}
	size := 0
	for _, it := range r.Ranges[0] {
		at := splitPlace(it.Key)
		d := readDocument(at, it, true)
		if d == nil {
			return ErrBroken
		}
		size += 2 * (len(it.Key) + len(it.Value))
		if n := len(b.Put); n == limit || n > 0 && (size > foldBytes/2 || len(added)+len(d.Terms) > foldTerms) {
			folded.Oldest = freshEpoch(it.Key)
			break
		}
		for _, t := range d.Terms {
			added[t.Term] = append(added[t.Term], d.Posting(t.Count))
		}
		folded.Documents++
		folded.Terms += uint64(d.Len)
		b.Expect = append(b.Expect, store.Expect{Key: it.Key, Value: it.Value})
		b.Delete = append(b.Delete, it.Key)
		b.Put = append(b.Put, store.Pair{Key: records.RecallDocument.Key(p, space, at.Stream, at.Pos), Value: it.Value})
	}
	documents := len(b.Put)
	folded.Version++
	if folded.Folded += documents; folded.Folded >= foldEpoch {
		folded.Folded = 0
		b.Put = append(b.Put, store.Pair{Key: records.RecallEpoch.Key(p, space),
			Value: binary.BigEndian.AppendUint32(nil, epoch+1)})
	}
	value, err := json.Marshal(folded)
	if err != nil {
		return err
	}
	b.Put = append(b.Put, store.Pair{Key: records.RecallCorpus.Key(p, space), Value: value})
	blocks, err := svc.addPostings(ctx, tenant, p, space, added)
	if err != nil {
		return err
	}
	for _, block := range blocks {
		size += len(block.Key) + len(block.Value)
	}
	if b.Put = append(b.Put, blocks...); documents > 1 && (size > foldBytes || len(b.Put)+len(b.Delete) > foldWrites) {
		return svc.fold(ctx, tenant, p, space, corpus, epoch, expect, documents/2)
	}
	return svc.db.Commit(ctx, tenant, b)
}

// addPostings gives the blocks that change where postings are added to terms.
func (svc *Service) addPostings(ctx context.Context, tenant string, p ident.Incarnation, space byte,
	added map[string][]rank.Posting,
) (out []store.Pair, err error) {
	terms := slices.Sorted(maps.Keys(added))
	for round := 0; len(terms) > 0; round++ {
		q := store.Query{Ranges: make([]store.Range, len(terms))}
		for i, term := range terms {
			ps := added[term]
			if round == 0 {
				slices.SortFunc(ps, func(a, b rank.Posting) int { return a.Compare(b.Place) })
			}
			q.Ranges[i] = blockOf(records.RecallBlock.Under3(p, space, term).From, ps[len(ps)-1].Place)
		}
		r, err := svc.db.Store.Read(ctx, tenant, q)
		if err != nil {
			return nil, err
		}
		rest := terms[:0]
		for i, term := range terms {
			ps := added[term]
			var block []rank.Posting
			var key []byte
			from := 0 // what is not before the block
			if items := r.Ranges[i]; len(items) > 0 {
				from, _ = slices.BinarySearchFunc(ps, splitPlace(items[0].Key), rank.Posting.Compare)
				key = items[0].Key
				if block, err = rank.ReadBlock(nil, items[0].Value); err != nil {
					return nil, ErrBroken
				}
			}
			for n, chunk := range rank.Merge(block, ps[from:]) {
				if n > 0 || key == nil {
					key = appendPlace(records.RecallBlock.Under3(p, space, term).From, chunk[0].Place)
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
