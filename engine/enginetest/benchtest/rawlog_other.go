//go:build !linux

package benchtest

import "os"

func fdatasync(f *os.File) error { return f.Sync() }
