package badgerstore

import (
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// space guards the disk: Badger dies on a full one and cannot be opened on it.
type space struct {
	free    func() (uint64, error)
	reserve uint64
}

// room is what the disk allows at one moment.
type room struct{ write, delete error }

// room asks for the free space. Space that cannot be told counts as none.
func (s space) room() room {
	free, err := s.free()
	if err != nil {
		err = fmt.Errorf("%w: it cannot be told: %w", store.ErrNoSpace, err)
		return room{write: err, delete: err}
	}
	var r room
	if free < s.reserve {
		r.write = store.ErrNoSpace
	}
	if free < s.reserve/2 {
		r.delete = store.ErrNoSpace
	}
	return r
}

// allows judges a batch. One that only deletes may go further, since it is how space is won back.
func (r room) allows(b store.Batch) error {
	if len(b.Put) == 0 {
		return r.delete
	}
	return r.write
}
