//go:build !linux

package badgerstore

import (
	"errors"
	"os"
)

// lastChange reports that nothing is known, so tables are read before the database is opened.
func lastChange(os.FileInfo) (string, error) { return "", errors.ErrUnsupported }
