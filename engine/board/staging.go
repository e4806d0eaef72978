package board

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/ident"

	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// stagedBoard is a board whose entries are written but not visible yet.
type stagedBoard struct {
	*records.Staging
	inc     ident.Incarnation
	waiting []*draft
	found   Places // index changes of the waiting entries
	bytes   int    // size of the waiting entries' content
}

// stage starts a board. Its incarnation starts with the given bytes, so that the ids of its entries equal those in the
// file. The tenant has no records under this incarnation, and no job to sweep any.
func (svc *Service) stage(ctx context.Context, c ident.Caller, begin []byte) (*stagedBoard, error) {
	s := &stagedBoard{found: Places{}}
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

// post adds an entry; several are written in one commit.
func (s *stagedBoard) post(d *draft) error {
	if len(s.waiting) == commitEntries || s.bytes+d.Size > records.StagedBytes ||
		len(s.found)+len(d.terms) > commitTerms {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.found.Add(s.inc, d.Seq, d.terms)
	s.waiting, s.bytes = append(s.waiting, d), s.bytes+d.Size
	return nil
}

// flush commits the waiting entries and their index terms.
func (s *stagedBoard) flush() error {
	r, err := s.Read(store.Query{Keys: s.found.Keys()})
	if err != nil {
		return err
	}
	if err := s.found.Set(s.W, r.Keys); err != nil {
		return err
	}
	for _, d := range s.waiting {
		if err := d.Put(s.W, s.inc); err != nil {
			return err
		}
	}
	s.waiting, s.found, s.bytes = nil, Places{}, 0
	return s.Staging.Flush()
}
