//go:build !windows && !plan9 && !js && !wasip1 && !aix && !solaris && !illumos

package badgerstore

import (
	"errors"
	"os"
	"syscall"
)

// lockFolder takes the same lock as Badger. It returns ErrLocked if it is held.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
