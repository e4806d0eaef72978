package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The collector runs when the heap has doubled, and the heap holds the store's memory tables, which are made large and
// fill slowly. So what a burst of requests has left behind would stay with the process until the next burst.

// restInterval is how often giveBack looks whether the server is at rest: it is where less than restBytes were allocated
// since.
const (
	restInterval = 5 * time.Second
	restBytes    = 16 << 20
)

// settled is the number of intervals after which all that waits for further requests is gone: instances of policies wait
// for ten seconds.
const settled = 4

// giveBack returns memory to the system when the server has come to rest, and once more when it has settled. A busy
// server is left alone, and so is one that goes on resting. It returns when ctx ends.
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
