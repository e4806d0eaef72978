package summary

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// workers is the maximum number of concurrent calls of the provider, perTenant that for one tenant.
	workers   = 4
	perTenant = 2
	// maxWaiting limits the queued tasks of each tenant. The rest remain in the store and are found later.
	maxWaiting = 1000
	// page is the number of tasks that are read from the store at once.
	page = 64
)

// queue holds the tasks that this process knows, by tenant, so that tenants take turns. It may be lost or out of date,
// because only the records in the store determine what is to be done.
type queue struct {
	mu      sync.Mutex
	turns   *admission.Turns
	lines   map[string][]*entry // by tenant, in order of arrival
	waiting map[ident.Incarnation]*entry
	holds   map[string]time.Time // by model: the time before which the provider wants no calls
	pages   map[string][]byte    // by tenant: the last key that was read from the store; nil means to start again
	bell    jobs.Bell
}

// entry is a session whose summary is to be made.
type entry struct {
	tenant  string
	session ident.Incarnation
	due     time.Time
	running bool
	tried   chan struct{} // closed at the end of the next attempt
}

// next returns a session's entry if an attempt is running or due. Otherwise it returns nil, because another process may
// have completed the task in the meantime.
func (q *queue) next(session ident.Incarnation, now time.Time) *entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.waiting[session]; e != nil && (e.running || !e.due.After(now)) {
		return e
	}
	return nil
}

// add queues a session, or makes it due earlier, and returns its entry, or nil if the queue is full.
func (q *queue) add(tenant string, session ident.Incarnation, due time.Time) *entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.waiting[session]; e != nil {
		if due.Before(e.due) && !e.running {
			e.due = due
			q.bell.Ring()
		}
		return e
	}
	if len(q.lines[tenant]) >= maxWaiting {
		return nil
	}
	e := &entry{tenant: tenant, session: session, due: due, tried: make(chan struct{})}
	q.waiting[session] = e
	q.lines[tenant] = append(q.lines[tenant], e)
	q.turns.Wait(tenant)
	q.bell.Ring()
	return e
}

// nextTasks returns the range of a tenant's tasks to read next. After the last task it starts again with the first.
func (q *queue) nextTasks(tenant string) store.Range {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs := records.SummaryJob.All()
	if after := q.pages[tenant]; after != nil {
		jobs.From = append(after[:len(after):len(after)], 0)
		delete(q.pages, tenant)
	}
	jobs.Limit = page
	return jobs
}

// enqueue queues tasks from the store that this process may not know yet, because another process created them. It
// reports whether there may be more. It skips tasks that failed too often; these run again when a window or a client
// asks.
func (svc *Service) enqueue(tenant string, found []store.Item) (more bool) {
	for _, it := range found {
		var job task
		if !it.Damaged && (json.Unmarshal(it.Value, &job) != nil || job.Attempts >= maxAttempts) {
			continue
		}
		session, _ := records.SummaryJob.Split(it.Key)
		if !svc.queue.knows(session) { // The queue knows better when its own entries are due.
			more = svc.queue.add(tenant, session, svc.due(&job)) != nil || more
		}
	}
	svc.queue.looked(tenant, found)
	return more && len(found) == page
}

func (q *queue) knows(session ident.Incarnation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[session] != nil
}

// looked records the position up to which a tenant's tasks have been read.
func (q *queue) looked(tenant string, found []store.Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(found); n == page {
		q.pages[tenant] = found[n-1].Key
	}
}

// take returns an entry that is due, of the tenant whose turn it is. If none is due, it returns the time at which the
// next one will be, or the zero time if none will. The caller must return the entry with give.
func (q *queue) take(now time.Time) (*entry, time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	tenant, next, ok := q.turns.NextDue(now, func(tenant string) (due time.Time, any bool) {
		e := q.due(tenant, now)
		if e == nil {
			return due, false
		}
		return e.due, true
	})
	if !ok {
		return nil, next
	}
	e := q.due(tenant, now)
	e.running = true
	return e, time.Time{}
}

// due returns the tenant's first entry that is due, or else the one that will be due first. It skips entries with a
// running attempt.
func (q *queue) due(tenant string, now time.Time) (first *entry) {
	for _, e := range q.lines[tenant] {
		switch {
		case e.running:
		case !e.due.After(now):
			return e
		case first == nil || e.due.Before(first.due):
			first = e
		}
	}
	return first
}

// give returns an entry after an attempt. The entry is due again at the given time; the zero time means that it is
// done.
func (q *queue) give(e *entry, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.lines[e.tenant], e)
	line := slices.Delete(q.lines[e.tenant], at, at+1)
	q.turns.Free(e.tenant)
	e.running, e.due = false, due
	close(e.tried)
	e.tried = make(chan struct{})
	if !due.IsZero() {
		line = append(line, e) // after those that are waiting already
	} else {
		delete(q.waiting, e.session)
	}
	q.lines[e.tenant] = line
	if len(line) == 0 {
		delete(q.lines, e.tenant)
		q.turns.Leave(e.tenant)
	}
	q.bell.Ring()
}

// hold delays calls of a model until a time.
func (q *queue) hold(model string, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until.After(q.holds[model]) {
		q.holds[model] = until
	}
}

// held returns the time until which calls of a model are delayed, or the zero time.
func (q *queue) held(model string, now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	until, ok := q.holds[model]
	if ok && !until.After(now) {
		delete(q.holds, model)
		return time.Time{}
	}
	return until
}

// attempt returns a channel that is closed at the end of the entry's next attempt, and reports whether one is running
// or due before a time.
func (q *queue) attempt(e *entry, before time.Time) (tried <-chan struct{}, soon bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.tried, e.running || e.due.Before(before)
}

// MakeSummary makes one attempt on one task that is due, and reports whether there was one. If not, next is the time at
// which the next task will be due, or the zero time if none will.
func (svc *Service) MakeSummary(ctx context.Context) (done bool, next time.Time, err error) {
	if svc.summariser == nil {
		return false, time.Time{}, nil
	}
	entry, next := svc.queue.take(svc.db.Now())
	if entry == nil {
		return false, next, nil
	}
	due, err := svc.workOn(ctx, entry)
	if err != nil { // The store failed, not the provider, so the task is still there.
		due = svc.db.Now().Add(svc.jittered(maxBackoff / 15))
	}
	svc.queue.give(entry, due)
	return true, time.Time{}, err
}
