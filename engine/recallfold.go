package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/recall"
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

// stepFold puts a chunk of fresh documents into blocks, or takes the postings of a dead one out, in any of a tenant's
// indexes.
func (e *Engine) stepFold(ctx context.Context, tenant string) (done bool, err error) {
	jobs := prefixRange(sweepPrefix(jobFold))
	r, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{jobs}})
	if err != nil {
		return false, err
	}
	var failed error // one index's trouble is no other's
	for _, job := range r.Ranges[0] {
		pinc, space := incarnation(job.Key[len(jobs.From):len(job.Key)-1]), job.Key[len(job.Key)-1]
		done, err := e.foldSpace(ctx, tenant, pinc, space)
		if failed = errors.Join(failed, err); done && err == nil || ctx.Err() != nil {
			return done, failed
		}
	}
	return false, failed
}

// foldSpace does one unit of one space's job, if it is due.
func (e *Engine) foldSpace(ctx context.Context, tenant string, p incarnation, space byte) (bool, error) {
	it, corpus, err := e.readCorpus(ctx, tenant, p, space)
	if err != nil {
		return false, err
	}
	fresh, dead := freshRange(p, space, corpus.Oldest), prefixRange(recallPrefix(p, space, recallDead))
	fresh.Limit, fresh.KeysOnly, dead.Limit = foldAt, true, 1
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: [][]byte{recallPrefix(p, space, recallEpoch)},
		Ranges: []store.Range{fresh, dead}})
	if err != nil {
		return false, err
	}
	waiting := r.Ranges[0]
	switch {
	case it.Damaged, r.Keys[0].Damaged:
		err = e.mendSpace(ctx, tenant, p, space)
	case len(r.Ranges[1]) > 0:
		err = e.removeDead(ctx, tenant, p, space, r.Ranges[1][0])
	case len(waiting) >= foldAt, len(waiting) > 0 && freshEpoch(waiting[0].Key) < readEpoch(r.Keys[0].Value):
		err = e.fold(ctx, tenant, p, space, foldChunk)
	default:
		return false, nil // few enough to be searched as they are
	}
	return true, lostRace(err)
}

func readEpoch(value []byte) uint32 {
	if len(value) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(value)
}

// readCorpus reads what is in the blocks of a space, with its record, which is damaged where it does not parse either.
func (e *Engine) readCorpus(ctx context.Context, tenant string, p incarnation, space byte) (it store.Item, c corpusRecord,
	err error,
) {
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: [][]byte{recallPrefix(p, space, recallCorpus)}})
	if err != nil {
		return it, c, err
	}
	it = r.Keys[0]
	c, whole := decodeCorpus(it)
	it.Damaged = !whole
	return it, c, nil
}

// freshRange covers the documents that wait for their block, from an epoch on.
func freshRange(p incarnation, space byte, oldest uint32) store.Range {
	rng := prefixRange(recallPrefix(p, space, recallFresh))
	rng.From = recallFreshFrom(p, space, oldest)
	return rng
}

// removeDead takes the postings of a document that is gone out of the blocks.
func (e *Engine) removeDead(ctx context.Context, tenant string, p incarnation, space byte, dead store.Item) error {
	at := splitPlace(dead.Key)
	t := &tx{ctx: ctx, e: e, tenant: tenant, now: e.now()}
	key := recallPlace(p, space, recallDocument, at)
	got, err := t.indexGet(dead.Key, key)
	if err != nil || got[0].Value == nil && !got[0].Damaged {
		return err
	}
	c, whole, err := t.corpus(p, space)
	if err != nil {
		return err
	}
	if !whole {
		return e.mendSpace(ctx, tenant, p, space) // first; the mark stays
	}
	t.indexDelete(dead.Key)
	if got[1].Value != nil || got[1].Damaged {
		d := readDocument(at, got[1], true)
		if d == nil {
			return e.strip(ctx, tenant, p, space, at)
		}
		if err := t.removePostings(p, space, d); err != nil {
			return err
		}
		t.indexDelete(key)
		if err := t.putCorpus(p, space, c); err != nil {
			return err
		}
	}
	t.putIndex()
	return e.commit(ctx, tenant, t.batch)
}

// fold puts the first fresh documents of a space into blocks, at most so many.
func (e *Engine) fold(ctx context.Context, tenant string, p incarnation, space byte, limit int) error {
	record, corpus, err := e.readCorpus(ctx, tenant, p, space)
	if err != nil {
		return err
	}
	epochKey := recallPrefix(p, space, recallEpoch)
	rng := freshRange(p, space, corpus.Oldest)
	rng.Limit = limit + 1
	r, err := e.store.Read(ctx, tenant, store.Query{Keys: [][]byte{epochKey}, Ranges: []store.Range{rng}})
	if err != nil {
		return err
	}
	if len(r.Ranges[0]) == 0 {
		return nil
	}
	if record.Damaged || r.Keys[0].Damaged {
		return e.mendSpace(ctx, tenant, p, space)
	}
	epoch := readEpoch(r.Keys[0].Value)
	b := store.Batch{Expect: []store.Expect{{Key: recallPrefix(p, space, recallCorpus), Value: record.Value},
		{Key: epochKey, Value: r.Keys[0].Value}}}
	oldest := epoch // that is left
	added := map[string][]recall.Posting{}
	size := 0
	var lost []store.Item
	for _, it := range r.Ranges[0] {
		at := splitPlace(it.Key)
		d := readDocument(at, it, true)
		if d == nil {
			lost = append(lost, it)
			continue
		}
		size += 2 * (len(it.Key) + len(it.Value))
		if n := len(b.Put); n == limit || n > 0 && (size > foldBytes/2 || len(added)+len(d.Terms) > foldTerms) {
			oldest = freshEpoch(it.Key)
			break
		}
		for _, t := range d.Terms {
			added[t.Term] = append(added[t.Term], d.Posting(t.Count))
		}
		corpus.Documents++
		corpus.Terms += uint64(d.Len)
		b.Expect = append(b.Expect, store.Expect{Key: it.Key, Value: it.Value})
		b.Delete = append(b.Delete, it.Key)
		b.Put = append(b.Put, store.Pair{Key: recallPlace(p, space, recallDocument, at), Value: it.Value})
	}
	for _, it := range lost {
		if err := e.restore(ctx, tenant, p, space, it); err != nil {
			return err
		}
	}
	if len(lost) > 0 {
		return nil // what was read has changed
	}
	documents := len(b.Put)
	corpus.Version++
	corpus.Oldest = oldest
	if corpus.Folded += documents; corpus.Folded >= foldEpoch {
		corpus.Folded = 0
		b.Put = append(b.Put, store.Pair{Key: epochKey, Value: binary.BigEndian.AppendUint32(nil, epoch+1)})
	}
	value, err := json.Marshal(corpus)
	if err != nil {
		return err
	}
	b.Put = append(b.Put, store.Pair{Key: recallPrefix(p, space, recallCorpus), Value: value})
	blocks, err := e.addPostings(ctx, tenant, p, space, added)
	if err != nil {
		return err
	}
	for _, block := range blocks {
		size += len(block.Key) + len(block.Value)
	}
	if b.Put = append(b.Put, blocks...); documents > 1 && (size > foldBytes || len(b.Put)+len(b.Delete) > foldWrites) {
		return e.fold(ctx, tenant, p, space, documents/2)
	}
	return e.commit(ctx, tenant, b)
}

// addPostings gives the blocks that change where postings are added to terms.
func (e *Engine) addPostings(ctx context.Context, tenant string, p incarnation, space byte,
	added map[string][]recall.Posting,
) (out []store.Pair, err error) {
	terms := slices.Sorted(maps.Keys(added))
	for round := 0; len(terms) > 0; round++ {
		q := store.Query{Ranges: make([]store.Range, len(terms))}
		for i, term := range terms {
			ps := added[term]
			if round == 0 {
				slices.SortFunc(ps, func(a, b recall.Posting) int { return a.Compare(b.Place) })
			}
			q.Ranges[i] = blockOf(recallTermPrefix(p, space, term), ps[len(ps)-1].Place)
		}
		r, err := e.store.Read(ctx, tenant, q)
		if err != nil {
			return nil, err
		}
		rest := terms[:0]
		for i, term := range terms {
			ps := added[term]
			var block []recall.Posting
			var key []byte
			from := 0 // what is not before the block
			if items := r.Ranges[i]; len(items) > 0 {
				from, _ = slices.BinarySearchFunc(ps, splitPlace(items[0].Key), func(p recall.Posting, at recall.Place) int {
					return p.Compare(at)
				})
				// Behind a damaged block a new one begins: the damaged one stays, and queries say that it is missing.
				if block, err = recall.ReadBlock(nil, items[0].Value); err == nil {
					key = items[0].Key
				} else {
					e.log.Error("a block of a recall index is damaged", "tenant", tenant)
					block = nil
				}
			}
			for n, chunk := range recall.Merge(block, ps[from:]) {
				if n > 0 || key == nil {
					key = appendPlace(recallTermPrefix(p, space, term), chunk[0].Place)
				}
				out = append(out, store.Pair{Key: key, Value: recall.AppendBlock(nil, chunk)})
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
