package engine

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// summaryWorkers is how many calls of the provider run at once, summariesPerTenant how many of them for one tenant.
	summaryWorkers     = 4
	summariesPerTenant = 2
	// maxWaiting bounds the jobs that a process remembers; the store holds them all, and a look at it finds the rest.
	maxWaiting = 10_000
)

// summaryQueue is what this process knows of the summaries to be made, tenant by tenant, so that each has its turn.
// What there is to do is said by the records in the store alone. The zero value is ready after open.
type summaryQueue struct {
	mu      sync.Mutex
	tenants []*summaryLine // the next one's turn first
	waiting map[incarnation]*summaryEntry
	paused  time.Time     // the provider wants no calls before
	changed chan struct{} // closed when something may have come due
}

// summaryLine is one tenant's entries, in the order in which they came.
type summaryLine struct {
	tenant  string
	entries []*summaryEntry
	running int
}

// summaryEntry is one session whose summary is to be made.
type summaryEntry struct {
	tenant  string
	session incarnation
	due     time.Time
	running bool
	tried   chan struct{} // closed when the next attempt has ended
}

func (q *summaryQueue) open() {
	q.waiting, q.changed = map[incarnation]*summaryEntry{}, make(chan struct{})
}

// next gives a session's entry where an attempt runs or is due; else nil: another process may have ended the job.
func (q *summaryQueue) next(session incarnation, now time.Time) *summaryEntry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.waiting[session]; e != nil && (e.running || !e.due.After(now)) {
		return e
	}
	return nil
}

// add queues a session, or makes it due earlier, and gives its entry; nil where the queue is full.
func (q *summaryQueue) add(tenant string, session incarnation, due time.Time) *summaryEntry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.waiting[session]; e != nil {
		if due.Before(e.due) && !e.running {
			e.due = due
			q.signal()
		}
		return e
	}
	if len(q.waiting) >= maxWaiting {
		return nil
	}
	e := &summaryEntry{tenant: tenant, session: session, due: due, tried: make(chan struct{})}
	q.waiting[session] = e
	line := q.line(tenant)
	line.entries = append(line.entries, e)
	q.signal()
	return e
}

func (q *summaryQueue) line(tenant string) *summaryLine {
	for _, l := range q.tenants {
		if l.tenant == tenant {
			return l
		}
	}
	l := &summaryLine{tenant: tenant}
	q.tenants = append(q.tenants, l)
	return l
}

// signal wakes all who wait; under mu.
func (q *summaryQueue) signal() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// watch gives what is closed when something may have come due.
func (q *summaryQueue) watch() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// summaryJobs are the jobs of a tenant that a look at it takes in at once.
func summaryJobs() store.Range {
	jobs := prefixRange(sweepPrefix(jobSummary))
	jobs.Limit = 64
	return jobs
}

// queueSummaries notes jobs that this process may not know yet: of a start before, or of other servers.
func (e *Engine) queueSummaries(tenant string, found []store.Item) {
	for _, it := range found {
		var job summaryJob
		if it.Damaged || json.Unmarshal(it.Value, &job) == nil {
			e.summaries.add(tenant, incarnation(it.Key[len(it.Key)-8:]), e.summaryDue(&job))
		}
	}
}

// take gives an entry that is due, of the tenant whose turn it is, or nil and when to look again; the zero time where
// nothing waits for time to pass. Who takes an entry must give it back.
func (q *summaryQueue) take(now time.Time) (*summaryEntry, time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Before(q.paused) && len(q.waiting) > 0 {
		return nil, q.paused
	}
	var next time.Time
	for i, l := range q.tenants {
		if l.running >= summariesPerTenant {
			continue
		}
		for _, e := range l.entries {
			if e.running {
				continue
			}
			if e.due.After(now) {
				if next.IsZero() || e.due.Before(next) {
					next = e.due
				}
				continue
			}
			e.running = true
			l.running++
			q.tenants = append(append(q.tenants[:i:i], q.tenants[i+1:]...), l) // the others' turn comes first now
			return e, time.Time{}
		}
	}
	return nil, next
}

// give puts an entry back after an attempt: due again at a time, or, at the zero time, done with.
func (q *summaryQueue) give(e *summaryEntry, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, l := 0, q.line(e.tenant)
	for l.entries[at] != e {
		at++
	}
	l.running--
	e.running, e.due = false, due
	close(e.tried)
	e.tried = make(chan struct{})
	l.entries = append(l.entries[:at:at], l.entries[at+1:]...)
	if !due.IsZero() {
		l.entries = append(l.entries, e) // behind those that wait already
	} else {
		delete(q.waiting, e.session)
	}
	if len(l.entries) == 0 {
		for i := range q.tenants {
			if q.tenants[i] == l {
				q.tenants = append(q.tenants[:i:i], q.tenants[i+1:]...)
				break
			}
		}
	}
	q.signal()
}

// hold keeps every call back until a time.
func (q *summaryQueue) hold(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until.After(q.paused) {
		q.paused = until
	}
}

// attempt is what ends with the entry's next attempt, and whether one may come before a time.
func (q *summaryQueue) attempt(e *summaryEntry, before time.Time) (tried <-chan struct{}, soon bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.tried, e.running || e.due.Before(before) && q.paused.Before(before)
}

// makeSummary makes one attempt on one job, if any is due, and tells whether it did; if not, when to look again.
func (e *Engine) makeSummary(ctx context.Context) (done bool, next time.Time, err error) {
	if e.summariser == nil {
		return false, time.Time{}, nil
	}
	entry, next := e.summaries.take(e.now())
	if entry == nil {
		return false, next, nil
	}
	due, err := e.workOnSummary(ctx, entry)
	if err != nil { // the store's trouble: the record is still there
		due = e.now().Add(e.jittered(maxSummaryBackoff / 15))
	}
	e.summaries.give(entry, due)
	return true, time.Time{}, err
}

// runSummaries makes summaries, one at a time, until ctx ends.
func (e *Engine) runSummaries(ctx context.Context) {
	for ctx.Err() == nil {
		changed := e.summaries.watch()
		done, next, err := e.makeSummary(ctx)
		if err != nil && ctx.Err() == nil {
			e.log.Error("making a summary failed; it is tried again later", "error", err)
		}
		if done {
			continue
		}
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(max(time.Millisecond, next.Sub(e.now())))
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due:
		}
	}
}
