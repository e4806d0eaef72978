package pgstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestWorkers blocks all workers of a queue: two start at once, two more once requests have waited, and never another.
// All requests are answered, and all workers end.
func TestWorkers(t *testing.T) {
	const requests = 7
	block := make(chan struct{})
	var running atomic.Int32
	q := &queue[*lookup]{usual: 2, most: 4, patience: time.Hour,
		together: func([]*lookup) int { return 1 },
		work: func(taken []*lookup) {
			if n := running.Add(1); n > 4 {
				t.Errorf("%d workers run at once, want at most 4", n)
			}
			<-block
			running.Add(-1)
			taken[0].done <- nil
		}}
	outcomes := make(chan error, requests)
	request := func() {
		outcomes <- q.do(t.Context(), &lookup{entry: newEntry()}, false)
	}
	for range requests {
		go request()
	}
	for running.Load() < 4 || q.length() != requests-4 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(3 * late) // in which no fifth may start
	close(block)
	for range requests {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
	for workers := 1; workers > 0; time.Sleep(time.Millisecond) {
		q.mu.Lock()
		workers = q.workers
		q.mu.Unlock()
	}
	go request() // starts a worker again
	if err := <-outcomes; err != nil {
		t.Error(err)
	}
}

// TestWaitsEnd ends the waits of requests that no worker takes, and of one that a worker has taken.
func TestWaitsEnd(t *testing.T) {
	block := make(chan struct{})
	taken := make(chan struct{}, 1)
	q := &queue[*lookup]{usual: 1, most: 1, patience: time.Hour,
		together: func([]*lookup) int { return 1 },
		work: func(all []*lookup) {
			taken <- struct{}{}
			<-block
			all[0].done <- nil
		}}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- q.do(ctx, &lookup{entry: newEntry()}, false) }()
	<-taken
	ended, end := context.WithCancel(t.Context())
	end()
	if err := q.do(ended, &lookup{entry: newEntry()}, false); !errors.Is(err, context.Canceled) {
		t.Errorf("a request whose context ended: %v", err)
	}
	impatient := &queue[*lookup]{} // without workers
	if err := impatient.do(t.Context(), &lookup{entry: newEntry()}, false); !errors.Is(err, errBusy) {
		t.Errorf("a request that waited for too long: %v", err)
	}
	if q.length() != 0 || impatient.length() != 0 {
		t.Error("requests that ended still wait")
	}
	cancel()
	select {
	case err := <-first:
		t.Errorf("a request that was taken ended before its outcome: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(block)
	if err := <-first; err != nil {
		t.Errorf("a request that was taken: %v", err)
	}
}
