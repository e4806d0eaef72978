package badgerstore

import (
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// space guards the disk: Badger dies on a full one and cannot be opened on it. Only one committer uses it.
type space struct {
	free    func() (uint64, error)
	reserve uint64

	last  room
	spare int64 // bytes that may be written before the free space is read again
}

// maxSpare limits what is written between two checks of the free space, because others may use it up meanwhile.
const maxSpare = 4 << 20

// room says what the free space allows at one moment.
type room struct{ write, delete error }

// roomFor returns what the free space allows. It reads the free space again once the writes have used up spare.
func (s *space) roomFor(bytes int64) room {
	if s.spare -= bytes; s.spare < 0 {
		s.look()
	}
	return s.last
}

// look reads the free space. If that fails, none counts as free.
func (s *space) look() {
	s.last, s.spare = room{}, 0
	free, err := s.free()
	if err != nil {
		err = fmt.Errorf("%w: it cannot be told: %w", store.ErrNoSpace, err)
		s.last = room{write: err, delete: err}
		return
	}
	if free < s.reserve {
		s.last.write = store.ErrNoSpace
	} else {
		s.spare = min(int64((free-s.reserve)/16), maxSpare)
	}
	if free < s.reserve/2 {
		s.last.delete = store.ErrNoSpace
	}
}

// allows checks whether a batch may be written. A batch that only deletes may use more of the disk, because it frees
// space.
func (r room) allows(b store.Batch) error {
	if len(b.Put) == 0 {
		return r.delete
	}
	return r.write
}
