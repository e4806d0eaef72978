//go:build unix

package server

import (
	"math"
	"syscall"
)

// maxDescriptors returns the number of files and connections that the process may have open.
func maxDescriptors() (int, bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)), true
}
