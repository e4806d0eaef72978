//go:build !unix

package benchtest

import "time"

// ProcessorTime is 0: nothing is known of it on this system.
func ProcessorTime() time.Duration { return 0 }
