package badgerstore

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// spares are file descriptors that a database holds for Badger, which opens the next log and its folder in the midst of a
// commit, and cannot go on if that fails. They are given up right before a commit that may need them.
type spares struct {
	held [2]*os.File
	// short says that a commit was refused for lack of descriptors, and none has succeeded since.
	short atomic.Bool
}

// take opens the spares that are missing.
func (s *spares) take() error {
	for i, f := range s.held {
		if f != nil {
			continue
		}
		f, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrNoDescriptors, err)
		}
		s.held[i] = f
	}
	return nil
}

func (s *spares) release() {
	for i, f := range s.held {
		if f != nil {
			_ = f.Close()
			s.held[i] = nil
		}
	}
}

// err is an ErrNoDescriptors while commits are refused for lack of descriptors. It looks whether some are free again, so
// that a server to which no client writes any more recovers.
func (s *spares) err() error {
	if !s.short.Load() {
		return nil
	}
	var probe spares // as many as making the next log takes
	defer probe.release()
	return probe.take()
}

// shortage tells what the store lacks where a file cannot be made or extended: descriptors, or else space.
func shortage(err error) error {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return store.ErrNoDescriptors
	}
	return store.ErrNoSpace
}
