package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// stagedBoard is a board whose entries are written but that nobody can see yet.
type stagedBoard struct {
	*staging
	inc      incarnation
	chat     uint64
	waiting  []*parsedPost
	postings map[string][]uint64 // by key: the numbers that the waiting entries have in it
	bytes    int
}

// stageBoard begins a board. Its incarnation begins as given, so that the ids of its entries are those of the file, and
// is of nothing that the tenant has or is about to sweep.
func (e *Engine) stageBoard(ctx context.Context, c Caller, begin []byte) (*stagedBoard, error) {
	s := &stagedBoard{postings: map[string][]uint64{}}
	var sweep []byte
	for taken := true; taken; {
		s.inc = e.newIncarnation()
		copy(s.inc[:], begin)
		sweep = kindBoardJob.Key(s.inc)
		things := boardRecords.Under(s.inc)
		things.Limit, things.KeysOnly = 1, true
		r, err := e.store.Read(ctx, c.Tenant, store.Query{Ranges: []store.Range{things}, Keys: [][]byte{sweep}})
		if err != nil {
			return nil, err
		}
		taken = len(r.Ranges[0]) > 0 || r.Keys[0].Value != nil || r.Keys[0].Damaged
	}
	var err error
	s.staging, err = e.stage(ctx, c, store.Pair{Key: sweep, Value: []byte{0}})
	return s, err
}

// post writes an entry, as many in one commit as it holds well.
func (s *stagedBoard) post(p *parsedPost) error {
	terms := p.terms(p.words)
	if len(s.waiting) == purgeEntries || s.bytes+p.Size > stagedBytes || len(s.postings)+len(terms) > purgeTerms {
		if err := s.flush(); err != nil {
			return err
		}
	}
	for _, term := range terms {
		key := string(kindPostings.Key(s.inc, term, p.seq/blockSize))
		s.postings[key] = append(s.postings[key], p.seq)
	}
	if p.chat {
		s.chat++
	}
	s.waiting, s.bytes = append(s.waiting, p), s.bytes+p.Size
	return nil
}

// flush commits the waiting entries with their postings.
func (s *stagedBoard) flush() error {
	var q store.Query
	for _, key := range slices.Sorted(maps.Keys(s.postings)) {
		q.Keys = append(q.Keys, []byte(key))
	}
	r, err := s.read(q)
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
		s.w.put(it.Key, found.encode())
	}
	at := &board{Incarnation: s.inc}
	for _, p := range s.waiting {
		s.w.put(kindEntryTime.Key(s.inc, timeOf(p.Created), p.seq), []byte{0})
		if err := s.w.putEntry(at, &p.storedEntry); err != nil {
			return err
		}
	}
	s.waiting, s.postings, s.bytes = nil, map[string][]uint64{}, 0
	return s.staging.flush()
}
