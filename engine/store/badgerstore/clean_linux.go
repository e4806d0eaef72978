package badgerstore

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lastChange returns the identity of a file and the time of its last change, which no program can set.
func lastChange(info os.FileInfo) (string, error) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.ErrUnsupported
	}
	return fmt.Sprintf("%d %d.%09d", s.Ino, s.Ctim.Sec, s.Ctim.Nsec), nil
}
