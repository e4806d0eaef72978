package board

import (
	"context"
	"maps"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// stagedBoard is a board whose entries are written but that nobody can see yet.
type stagedBoard struct {
	*records.Staging
	inc      ident.Incarnation
	chat     uint64
	waiting  []*parsedPost
	postings map[string][]uint64 // by key: the numbers that the waiting entries have in it
	bytes    int
}

// stage begins a board. Its incarnation begins as given, so that the ids of its entries are those of the file, and
// is of nothing that the tenant has or is about to sweep.
func (svc *Service) stage(ctx context.Context, c access.Caller, begin []byte) (*stagedBoard, error) {
	s := &stagedBoard{postings: map[string][]uint64{}}
	var sweep []byte
	for taken := true; taken; {
		s.inc = svc.db.NewIncarnation()
		copy(s.inc[:], begin)
		sweep = records.BoardJob.Key(s.inc)
		things := records.BoardRecords.Under(s.inc)
		things.Limit, things.KeysOnly = 1, true
		r, err := svc.db.Store.Read(ctx, c.Tenant, store.Query{Ranges: []store.Range{things}, Keys: [][]byte{sweep}})
		if err != nil {
			return nil, err
		}
		taken = len(r.Ranges[0]) > 0 || r.Keys[0].Value != nil || r.Keys[0].Damaged
	}
	var err error
	s.Staging, err = svc.db.Stage(ctx, c, store.Pair{Key: sweep, Value: []byte{0}})
	return s, err
}

// post writes an entry, as many in one commit as it holds well.
func (s *stagedBoard) post(p *parsedPost) error {
	terms := p.terms(p.words)
	if len(s.waiting) == purgeEntries || s.bytes+p.Size > records.StagedBytes || len(s.postings)+len(terms) > purgeTerms {
		if err := s.flush(); err != nil {
			return err
		}
	}
	for _, term := range terms {
		key := string(records.Postings.Key(s.inc, term, p.seq/blockSize))
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
	r, err := s.Read(q)
	if err != nil {
		return err
	}
	for _, it := range r.Keys {
		found, ok := decodePostings(it.Value)
		if !ok || it.Damaged {
			return records.ErrDamaged
		}
		for _, seq := range s.postings[string(it.Key)] {
			found.set(seq)
		}
		s.W.Put(it.Key, found.encode())
	}
	at := &Record{Incarnation: s.inc}
	for _, p := range s.waiting {
		s.W.Put(records.EntryTime.Key(s.inc, records.TimeOf(p.Created), p.seq), []byte{0})
		if err := putEntry(s.W, at, &p.storedEntry); err != nil {
			return err
		}
	}
	s.waiting, s.postings, s.bytes = nil, map[string][]uint64{}, 0
	return s.Staging.Flush()
}
