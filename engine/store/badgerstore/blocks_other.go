//go:build !linux

package badgerstore

import (
	"errors"
	"sync/atomic"
)

// canAllocate is false because blocks of files cannot be allocated on this system: the free space is the only guard.
const canAllocate = false

const keepSize = 0

var starved atomic.Int64

func allocate(int, uint32, int64, int64) error { return errors.ErrUnsupported }
