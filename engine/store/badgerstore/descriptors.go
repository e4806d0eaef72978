package badgerstore

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// spares are file descriptors that a database reserves for Badger, which opens the next log and its folder during a
// commit, and cannot continue if that fails. They are released right before a commit that may need them.
type spares struct {
	held [2]*os.File
	// short says that a commit was refused for lack of descriptors, and none has succeeded since.
	short atomic.Bool
}

// take opens the missing spares.
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

// err returns an ErrNoDescriptors while commits are refused for lack of descriptors. It checks whether some are free
// again, so that a server without writing clients recovers.
func (s *spares) err() error {
	if !s.short.Load() {
		return nil
	}
	var probe spares // as many as creating the next log needs
	defer probe.release()
	return probe.take()
}

// shortage returns the error for a file that cannot be created or extended: no descriptors, or else no space.
func shortage(err error) error {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return store.ErrNoDescriptors
	}
	return store.ErrNoSpace
}
