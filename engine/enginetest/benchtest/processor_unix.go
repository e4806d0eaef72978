//go:build unix

package benchtest

import (
	"syscall"
	"time"
)

// ProcessorTime is the time that the process has spent on processors so far, its own and the system's for it.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
