//go:build !linux

package pgstore

import "syscall"

// giveUpUnacknowledged does nothing on systems without this setting. The deadlines of statements still apply.
func giveUpUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
