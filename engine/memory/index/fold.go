package index

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/memory/rank"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Limits of putting fresh documents into blocks.
const (
	foldAt     = 64      // the minimum number of fresh documents
	foldChunk  = 1024    // documents in one batch
	foldWrites = 9000    // writes of one batch
	foldTerms  = 6500    // distinct terms of one batch
	foldBytes  = 6 << 20 // of one batch
	foldEpoch  = 512     // documents that leave an epoch before the next begins
	foldDead   = 256     // dead documents that one batch removes
	foldBlocks = 3000    // blocks that it changes for them, unless a single document is in more
)

// stepSpaces does one unit of work on the first of a tenant's indexes that needs some: what the index's job says, or
// else putting a chunk of fresh documents into blocks, or removing the postings of dead ones.
func (svc *Service) stepSpaces(ctx context.Context, tenant string) (done bool, err error) {
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{records.FoldJob.All()}})
	if err != nil {
		return false, err
	}
	var failed error // Continue with the next index: an error here must not stop the others.
	for _, job := range r.Ranges[0] {
		done, err := svc.stepSpace(ctx, tenant, job)
		failed = errors.Join(failed, err)
		if done && err == nil || ctx.Err() != nil {
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
	done, err = svc.foldSpace(ctx, tenant, job, foldAt)
	switch {
	case errors.Is(err, ErrBroken):
		return true, records.LostRace(svc.rebuild(ctx, tenant, job))
	case err == nil && !done && state == built:
		return true, records.LostRace(svc.buildPiece(ctx, tenant, job))
	}
	return done, records.LostRace(err)
}

// folding puts fresh documents of one space into blocks, based on one state of the space.
type folding struct {
	Space
	svc     *Service
	ctx     context.Context
	tenant  string
	corpus  corpusRecord
	epoch   uint32
	vectors bool   // documents in blocks get vectors
	history string // of the store, before the state was read
	tails   *Tails
	expect  []store.Expect // the space's job, corpus, epoch and model, as they were read
}

// look reads what waits in a space: the keys of the first fresh documents and of the first marks of dead ones.
func (svc *Service) look(ctx context.Context, tenant string, job store.Item) (f *folding, fresh, marks []store.Item,
	err error) {
	s, history := spaceOf(job.Key), store.Epoch(svc.db.Store)
	record, corpus, err := svc.readCorpus(ctx, tenant, s)
	if err != nil {
		return nil, nil, nil, err
	}
	waiting, dead := s.fresh(corpus.Oldest), s.dead(corpus.Oldest)
	waiting.Limit, waiting.KeysOnly, dead.Limit, dead.KeysOnly = foldAt, true, foldDead+1, true
	q := store.Query{Keys: [][]byte{s.epochKey(), s.modelKey()}, Ranges: []store.Range{waiting, dead}}
	r, err := svc.db.Store.Read(ctx, tenant, q)
	if err != nil {
		return nil, nil, nil, err
	}
	epoch, err := readEpoch(r.Keys[0])
	if err != nil {
		return nil, nil, nil, err
	}
	model, err := readModelled(r.Keys[1])
	if err != nil {
		return nil, nil, nil, err
	}
	f = &folding{Space: s, svc: svc, ctx: ctx, tenant: tenant, corpus: corpus, epoch: epoch, vectors: model != nil,
		history: history}
	for _, it := range []store.Item{job, record, r.Keys[0], r.Keys[1]} {
		f.expect = append(f.expect, store.Expect{Key: it.Key, Value: it.Value})
	}
	return f, r.Ranges[0], r.Ranges[1], nil
}

// oldest returns the epoch of the first waiting record, or the current epoch if there is none.
func (f *folding) oldest(waiting []store.Item) uint32 {
	if len(waiting) == 0 {
		return f.epoch
	}
	return epochOf(waiting[0].Key)
}

// foldSpace removes dead documents from blocks, or puts fresh documents into them if there are at least least, or if
// they have waited since an earlier epoch. Fewer fresh documents are searched directly. It does not fold while there
// are marks, because a fold declares that nothing is left of earlier epochs.
func (svc *Service) foldSpace(ctx context.Context, tenant string, job store.Item, least int) (done bool, err error) {
	f, fresh, marks, err := svc.look(ctx, tenant, job)
	if err != nil {
		return false, err
	}
	if len(marks) > 0 { // Forgotten documents must not stay because there are few others.
		return true, f.takeOut(marks, f.oldest(fresh), foldDead)
	}
	if len(fresh) < least && f.oldest(fresh) >= f.epoch {
		svc.tails.Rest()
		return false, nil
	}
	f.tails = svc.tails.Take(f.tailsOf(f.expect[1].Value))
	for limit := foldChunk; ; limit /= 4 {
		err := f.fold(limit)
		if _, lost := errors.AsType[*store.ConflictError](err); !lost || limit <= foldAt {
			return true, err
		}
		// Some of the documents were overwritten in the meantime. With fewer documents that happens less often.
	}
}

// fold puts the first fresh documents, up to limit, into blocks. If the batch gets too large, it starts again with half
// of them.
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
	counts := namespaceCounts{}
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
		posting := d.Posting(0)
		for _, t := range d.Terms {
			posting.Count = t.Count
			added[t.Term] = append(added[t.Term], posting)
		}
		corpus.Documents++
		corpus.Terms += uint64(d.Len)
		counts.add(d, 1)
		b.Expect = append(b.Expect, store.Expect{Key: it.Key, Value: it.Value})
		b.Delete = append(b.Delete, it.Key)
		b.Put = append(b.Put, store.Pair{Key: f.documentKey(d.Place), Value: it.Value})
	}
	documents := len(b.Put)
	kept, err := f.keep(&b, corpus, documents)
	if err != nil {
		return err
	}
	if err := f.count(&b, counts); err != nil {
		return err
	}
	blocks, ends, err := f.addPostings(added)
	if err != nil {
		return err
	}
	if f.vectors {
		for _, p := range b.Put[:documents] {
			b.Put = append(b.Put, store.Pair{Key: f.unembeddedKey(placeOf(p.Key))})
		}
	}
	if b.Put = append(b.Put, blocks...); documents > 1 && (b.Bytes() > foldBytes || len(b.Put)+len(b.Delete) > foldWrites) {
		return f.fold(documents / 2)
	}
	if err = f.svc.db.Commit(f.ctx, f.tenant, b); err == nil {
		f.svc.tails.Leave(f.tails, f.tailsOf(kept), ends)
		f.advance(kept, slices.Collect(maps.Keys(ends)), nil)
	}
	return err
}

// stateWith returns the name of the state of the space with a corpus.
func (f *folding) stateWith(corpus []byte) string {
	return stateName(f.history, f.expect[0].Value, corpus)
}

// advance tells the cache of a change that was stored with a corpus.
func (f *folding) advance(corpus []byte, terms []string, places []rank.Place) {
	cache := f.svc.cache
	cache.advance(cache.state(f.tenant, f.Space), f.stateWith(f.expect[1].Value), f.stateWith(corpus), terms, places)
}

// keep writes the corpus after a batch that puts documents into blocks or removes them, and returns its record. It
// begins the next epoch when due, but only when nothing is left of earlier ones. So documents wait in at most two
// epochs, and a writer that adds one checks its place in both.
func (f *folding) keep(b *store.Batch, corpus corpusRecord, documents int) (value []byte, err error) {
	corpus.Version++
	corpus.Analyser = analyserVersion
	if corpus.Folded += documents; corpus.Folded >= foldEpoch && corpus.Oldest >= f.epoch {
		corpus.Folded = 0
		b.Put = append(b.Put, store.Pair{Key: f.epochKey(), Value: binary.BigEndian.AppendUint32(nil, f.epoch+1)})
	}
	value, err = json.Marshal(corpus)
	b.Put = append(b.Put, store.Pair{Key: f.corpusKey(), Value: value})
	return value, err
}

// takeOut removes the documents of the first marks from blocks, up to most and as far as one batch can. No fresh
// document is of an epoch before oldest.
func (f *folding) takeOut(marks []store.Item, oldest uint32, most int) error {
	keys := make([][]byte, 0, 4*len(marks))
	for _, it := range marks {
		at := placeOf(it.Key)
		bits, _ := f.vectorKeys(at)
		keys = append(keys, it.Key, f.documentKey(at), bits, f.unembeddedKey(at))
	}
	r, err := f.svc.db.Store.Read(f.ctx, f.tenant, store.Query{Keys: keys})
	if err != nil {
		return err
	}
	b := store.Batch{Expect: slices.Clone(f.expect)}
	corpus := f.corpus
	corpus.Oldest = oldest
	var gone []*rank.Document
	counts := namespaceCounts{}
	blocks := 0
	for i := 0; i < len(r.Keys); i += 4 {
		mark, it := r.Keys[i], r.Keys[i+1]
		if i == 4*most { // There may be more after it.
			corpus.Oldest = min(oldest, epochOf(mark.Key))
			break
		}
		twice := slices.ContainsFunc(gone, func(d *rank.Document) bool { return d.Place == placeOf(mark.Key) })
		if there(it) && !twice { // A document marked in two epochs is removed once.
			d := readDocument(it, true)
			if d == nil || corpus.Documents == 0 || corpus.Terms < uint64(d.Len) {
				return ErrBroken
			}
			if blocks += len(d.Terms); len(gone) > 0 && blocks > foldBlocks {
				corpus.Oldest = min(oldest, epochOf(mark.Key))
				break
			}
			corpus.Documents--
			corpus.Terms -= uint64(d.Len)
			counts.add(d, -1)
			gone = append(gone, d)
			b.Expect = append(b.Expect, store.Expect{Key: it.Key, Value: it.Value})
			b.Delete = append(b.Delete, it.Key)
			if vector := r.Keys[i+2]; there(vector) {
				bits, bytes := f.vectorKeys(d.Place)
				b.Delete = append(b.Delete, bits, bytes)
			} else { // A mark made at this moment must not outlive its document.
				b.Expect = append(b.Expect, store.Expect{Key: vector.Key})
			}
			if waits := r.Keys[i+3]; there(waits) {
				b.Delete = append(b.Delete, waits.Key)
			}
		}
		b.Delete = append(b.Delete, mark.Key)
	}
	kept, err := f.keep(&b, corpus, len(gone))
	if err != nil {
		return err
	}
	if err := f.count(&b, counts); err != nil {
		return err
	}
	if err := f.removePostings(&b, gone); err != nil {
		return err
	}
	if len(gone) > 1 && b.Bytes() > foldBytes {
		return f.takeOut(marks, oldest, min(most, len(marks))/2)
	}
	if err = f.svc.db.Commit(f.ctx, f.tenant, b); err == nil {
		var terms []string
		var places []rank.Place
		for _, d := range gone {
			places = append(places, d.Place)
			for _, t := range d.Terms {
				terms = append(terms, t.Term)
			}
		}
		f.advance(kept, terms, places)
	}
	return err
}
