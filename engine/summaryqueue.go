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
	// maxWaiting bounds the jobs of a tenant that a process remembers; the store holds them all, and looks at it, a
	// page each, find the rest.
	maxWaiting = 1000
	// summaryPage is how many jobs one look reads.
	summaryPage = 64
)

// summaryQueue is what this process knows of the summaries to be made, tenant by tenant, so that each has its turn.
// What there is to do is said by the records in the store alone. openSummaries makes it ready.
type summaryQueue struct {
	mu      sync.Mutex
	tenants []*summaryLine // the next one's turn first
	waiting map[incarnation]*summaryEntry
	holds   map[string]time.Time // by model: the provider wants no calls before
	pages   map[string][]byte    // by tenant: the last key that a look has read; none: it begins anew
	changed chan struct{}        // closed when something may have come due
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

// openSummaries makes ready what summaries need; with a nil summariser none are made.
func (e *Engine) openSummaries(s Summariser) {
	e.summariser = s
	q := &e.summaries
	q.waiting, q.changed = map[incarnation]*summaryEntry{}, make(chan struct{})
	q.holds, q.pages = map[string]time.Time{}, map[string][]byte{}
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
	line := q.line(tenant)
	if len(line.entries) >= maxWaiting {
		return nil
	}
	e := &summaryEntry{tenant: tenant, session: session, due: due, tried: make(chan struct{})}
	q.waiting[session] = e
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

// summaryJobs are the jobs that the next look at a tenant reads. A look that finds none is followed by one from the
// start.
func (q *summaryQueue) summaryJobs(tenant string) store.Range {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs := kindSummaryJob.All()
	if after := q.pages[tenant]; after != nil {
		jobs.From = append(after[:len(after):len(after)], 0)
		delete(q.pages, tenant)
	}
	jobs.Limit = summaryPage
	return jobs
}

// queueSummaries notes jobs that this process may not know yet, of a start before or of other servers, and tells
// whether there may be more of them. Those that failed often wait for somebody to ask.
func (e *Engine) queueSummaries(tenant string, found []store.Item) (more bool) {
	for _, it := range found {
		var job summaryJob
		if !it.Damaged && (json.Unmarshal(it.Value, &job) != nil || job.Attempts >= maxSummaryAttempts) {
			continue
		}
		session := incarnation(it.Key[len(it.Key)-8:])
		if !e.summaries.knows(session) { // else it is known better when it is due
			more = e.summaries.add(tenant, session, e.summaryDue(&job)) != nil || more
		}
	}
	e.summaries.turn(tenant, found)
	return more && len(found) == summaryPage
}

func (q *summaryQueue) knows(session incarnation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[session] != nil
}

// turn notes how far looks at a tenant have come.
func (q *summaryQueue) turn(tenant string, found []store.Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(found); n == summaryPage {
		q.pages[tenant] = found[n-1].Key
	}
}

// take gives an entry that is due, of the tenant whose turn it is, or nil and when to look again; the zero time where
// nothing waits for time to pass. Who takes an entry must give it back.
func (q *summaryQueue) take(now time.Time) (*summaryEntry, time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
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

// hold keeps calls of a model back until a time.
func (q *summaryQueue) hold(model string, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until.After(q.holds[model]) {
		q.holds[model] = until
	}
}

// held is the time until which calls of a model are held back; zero: they are not.
func (q *summaryQueue) held(model string, now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	until, ok := q.holds[model]
	if ok && !until.After(now) {
		delete(q.holds, model)
		return time.Time{}
	}
	return until
}

// attempt is what ends with the entry's next attempt, and whether one may come before a time.
func (q *summaryQueue) attempt(e *summaryEntry, before time.Time) (tried <-chan struct{}, soon bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.tried, e.running || e.due.Before(before)
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
