//go:build !linux

package pgstore

import "syscall"

// giveUpUnacknowledged does nothing where the system has no such setting. The deadlines of statements remain.
func giveUpUnacknowledged(_, _ string, _ syscall.RawConn) error { return nil }
