//go:build windows || plan9 || js || wasip1 || aix || solaris || illumos

package badgerstore

import (
	"errors"
	"fmt"
	"os"
)

// lockFolder cannot keep Badger out on this system.
func lockFolder(string) (*os.File, error) {
	return nil, fmt.Errorf("locking a folder: %w", errors.ErrUnsupported)
}
