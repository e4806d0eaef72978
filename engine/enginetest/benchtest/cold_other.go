//go:build !linux

package benchtest

import "errors"

// DropFiles cannot be done here.
func DropFiles(string) error { return errors.ErrUnsupported }

// DiskRead is not known here.
func DiskRead() (int64, error) { return 0, errors.ErrUnsupported }
