package pgstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// queue collects requests for a few workers, each of which takes several of them at a time. Requests are taken in the
// order in which they came. Workers are goroutines that run only while requests wait.
type queue[R waiter] struct {
	usual int // the number of workers, beyond which one starts only while a request has waited for late
	most  int // the maximum number of workers
	// patience is how long a request waits for a worker.
	patience time.Duration
	// together returns how many of the first requests, at least one, a worker may take at once.
	together func(waiting []R) int
	// work answers the requests that a worker took, or returns them to the queue.
	work func(taken []R)

	mu      sync.Mutex
	waiting []R
	workers int
	timed   bool // lookLate will be called
}

// late is how long a request waits before another worker starts for it. A distant synchronous standby makes commits
// so slow that the usual workers cannot take all of them.
const late = 2 * time.Millisecond

// errBusy is returned for a request that no worker took in time.
var errBusy = errors.New("the database is too slow for the requests that wait")

// waiter is a request in a queue.
type waiter interface {
	comparable
	queued() *entry
}

// entry is the part of a request that its queue uses.
type entry struct {
	since time.Time
	done  chan error // receives the outcome
}

func newEntry() entry { return entry{since: time.Now(), done: make(chan error, 1)} }

func (e *entry) queued() *entry { return e }

// do waits for the outcome of a request. The end of ctx ends the wait until a worker takes the request, and with
// leave also after that.
func (q *queue[R]) do(ctx context.Context, r R, leave bool) error {
	q.add(r)
	patience := time.NewTimer(q.patience)
	defer patience.Stop()
	done := r.queued().done
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if q.withdraw(r) || leave {
			return ctx.Err()
		}
	case <-patience.C:
		if q.withdraw(r) {
			return errBusy
		}
	}
	if !leave {
		return <-done
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *queue[R]) add(r R) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, r)
	if q.workers < q.usual {
		q.start()
	} else {
		q.lookLater(late)
	}
}

// again returns requests to the front of the queue. A worker calls it, so one is running.
func (q *queue[R]) again(taken []R) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.Insert(q.waiting, 0, taken...)
}

// withdraw removes a request that waits. It returns false if a worker has taken it.
func (q *queue[R]) withdraw(r R) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, r)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// start starts a worker. The caller holds mu.
func (q *queue[R]) start() {
	q.workers++
	go func() {
		for taken := q.next(); taken != nil; taken = q.next() {
			q.work(taken)
		}
	}()
}

// next takes requests for a worker. It returns nil if the worker is to end.
func (q *queue[R]) next() []R {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || q.workers > q.usual && time.Since(q.waiting[0].queued().since) < late {
		q.workers--
		return nil
	}
	n := q.together(q.waiting)
	taken := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return taken
}

// lookLater calls lookLate once, if another worker may start. The caller holds mu.
func (q *queue[R]) lookLater(after time.Duration) {
	if !q.timed && q.workers < q.most {
		q.timed = true
		time.AfterFunc(after, q.lookLate)
	}
}

// lookLate starts a worker if the first request has waited for late.
func (q *queue[R]) lookLate() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timed = false
	if len(q.waiting) == 0 || q.workers >= q.most {
		return
	}
	left := late - time.Since(q.waiting[0].queued().since)
	if left <= 0 {
		q.start()
		left = late
	}
	q.lookLater(left)
}

// length returns how many requests wait.
func (q *queue[R]) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}
