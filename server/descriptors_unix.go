//go:build unix

package server

import (
	"math"
	"syscall"
)

// maxDescriptors returns the number of files and connections that the process may have open, or 0 if it is not known.
// Go has raised the soft limit to the hard limit.
func maxDescriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
