package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The collector runs when the heap has doubled, and the heap contains the store's memtables, which are allocated
// large and fill slowly. Without giveBack, the garbage of a burst of requests would remain until the next burst.

// restInterval is the interval at which giveBack checks whether the server is idle. The server is idle if less than
// restBytes were allocated in the interval.
const (
	restInterval = 5 * time.Second
	restBytes    = 16 << 20
)

// settled is the number of idle intervals after which all caches for further requests are gone: policy instances are
// kept for ten seconds.
const settled = 4

// giveBack returns memory to the system when the server becomes idle, and once more when it has settled. It does
// nothing while the server is busy or remains idle. It returns when ctx ends.
func giveBack(ctx context.Context) {
	ticker := time.NewTicker(restInterval)
	defer ticker.Stop()
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	for before, quiet := uint64(0), 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(allocated)
		now := allocated[0].Value.Uint64()
		quiet++
		if now-before > restBytes {
			quiet = 0
		}
		before = now
		if quiet == 1 || quiet == settled {
			debug.FreeOSMemory()
		}
	}
}
