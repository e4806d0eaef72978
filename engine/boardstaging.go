package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// boardStaging is a board whose entries are written but that nobody can see yet. The job sweeps them away again unless
// the commit that makes the board takes it back in time.
type boardStaging struct {
	im   *importing
	inc  incarnation
	job  []byte
	chat uint64

	waiting  []*parsedPost
	postings map[string][]uint64 // by key: the numbers that the waiting entries have in it
	bytes    int
}

// stageBoard begins a board where nobody sees it. Its incarnation begins as given, so that the ids of its entries are
// those of the file, and is of nothing that the tenant has or is about to sweep.
func (im *importing) stageBoard(begin []byte) (*boardStaging, error) {
	t := im.tx()
	if err := t.expectLive(im.caller); err != nil {
		return nil, err
	}
	s := &boardStaging{im: im, postings: map[string][]uint64{}}
	for taken := true; taken; {
		s.inc = im.e.newIncarnation()
		copy(s.inc[:], begin)
		things := prefixRange(boardPrefix(s.inc))
		things.Limit, things.KeysOnly = 1, true
		r, err := im.e.store.Read(im.ctx, t.tenant, store.Query{Ranges: []store.Range{things},
			Keys: [][]byte{sweepKey(sweepPrefixed, boardPrefix(s.inc))}})
		if err != nil {
			return nil, err
		}
		taken = len(r.Ranges[0]) > 0 || r.Keys[0].Value != nil || r.Keys[0].Damaged
	}
	s.job = stagedKey(t.now.Add(importLife), s.inc)
	t.put(s.job, []byte(stagedBoard))
	return s, im.e.commit(im.ctx, t.tenant, t.batch)
}

func (s *boardStaging) expect() store.Expect {
	return store.Expect{Key: s.job, Value: []byte(stagedBoard)}
}

// add writes an entry, as many in one commit as it holds well.
func (s *boardStaging) add(p *parsedPost) error {
	terms := p.terms(p.words)
	if len(s.waiting) == purgeEntries || s.bytes+p.Size > stagedBytes || len(s.postings)+len(terms) > purgeTerms {
		if err := s.flush(); err != nil {
			return err
		}
	}
	for _, term := range terms {
		key := string(postingsKey(s.inc, term, p.seq/blockSize))
		s.postings[key] = append(s.postings[key], p.seq)
	}
	if p.chat {
		s.chat++
	}
	s.waiting, s.bytes = append(s.waiting, p), s.bytes+p.Size
	return nil
}

// flush commits the waiting entries, unless the job ran out: then what was written is being swept.
func (s *boardStaging) flush() error {
	if len(s.waiting) == 0 {
		return nil
	}
	t := s.im.tx()
	t.batch.Expect = append(t.batch.Expect, s.expect())
	var q store.Query
	for _, key := range slices.Sorted(maps.Keys(s.postings)) {
		q.Keys = append(q.Keys, []byte(key))
	}
	r, err := t.e.store.Read(t.ctx, t.tenant, q)
	if err != nil {
		return err
	}
	for _, it := range r.Keys {
		found, ok := decodePostings(it.Value)
		if !ok || it.Damaged {
			return errDamaged
		}
		for _, seq := range s.postings[string(it.Key)] {
			found.set(seq)
		}
		t.put(it.Key, found.encode())
	}
	at := &board{Incarnation: s.inc}
	for _, p := range s.waiting {
		t.put(entryTimeKey(s.inc, p.Created, p.seq), []byte{0})
		if err := t.putEntry(at, &p.storedEntry); err != nil {
			return err
		}
	}
	s.waiting, s.postings, s.bytes = nil, map[string][]uint64{}, 0
	err = t.e.commit(t.ctx, t.tenant, t.batch)
	if swept := (*store.ConflictError)(nil); errors.As(err, &swept) {
		err = errorf(Unavailable, "import_expired", "a board may take %s to be imported; import the file again", importLife)
	}
	return err
}

// abandon has what was staged swept. Where this fails too, the job does it later.
func (s *boardStaging) abandon(ctx context.Context) {
	sweep := store.Batch{Delete: [][]byte{s.job},
		Put: []store.Pair{{Key: sweepKey(sweepPrefixed, boardPrefix(s.inc)), Value: []byte{0}}}}
	if err := s.im.e.commit(ctx, s.im.caller.Tenant, sweep); err != nil {
		s.im.e.log.Error("sweeping a failed import; it is tried again later", "error", err)
	}
}
