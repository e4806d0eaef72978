//go:build windows || plan9 || js || wasip1 || aix || solaris || illumos

package badgerstore

import (
	"errors"
	"fmt"
	"os"
)

// lockFolder knows no way to keep Badger out here.
func lockFolder(string) (*os.File, error) {
	return nil, fmt.Errorf("locking a folder: %w", errors.ErrUnsupported)
}
