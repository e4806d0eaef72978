//go:build windows || plan9 || js || wasip1 || aix || solaris || illumos

package badgerstore

import (
	"errors"
	"os"
)

// lockFolder knows no way to keep Badger out here.
func lockFolder(string) (*os.File, error) {
	return nil, errors.New("copies of a store are not supported on this system")
}
