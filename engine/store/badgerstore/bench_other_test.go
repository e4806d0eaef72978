//go:build !linux

package badgerstore

import "os"

func fdatasync(f *os.File) error { return f.Sync() }
