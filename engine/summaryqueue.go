package engine

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fair"
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
	turns   *fair.Turns
	lines   map[string][]*summaryEntry // by tenant, in the order in which they came
	waiting map[incarnation]*summaryEntry
	holds   map[string]time.Time // by model: the provider wants no calls before
	pages   map[string][]byte    // by tenant: the last key that a look has read; none: it begins anew
	changed chan struct{}        // closed when something may have come due
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
	q.turns, q.lines = fair.NewTurns(summaryWorkers, summariesPerTenant), map[string][]*summaryEntry{}
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
	if len(q.lines[tenant]) >= maxWaiting {
		return nil
	}
	e := &summaryEntry{tenant: tenant, session: session, due: due, tried: make(chan struct{})}
	q.waiting[session] = e
	q.lines[tenant] = append(q.lines[tenant], e)
	q.turns.Wait(tenant)
	q.signal()
	return e
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
	tenant, ok := q.turns.Next(func(tenant string) bool {
		e := q.due(tenant, now)
		if e != nil && e.due.After(now) && (next.IsZero() || e.due.Before(next)) {
			next = e.due
		}
		return e != nil && !e.due.After(now)
	})
	if !ok {
		return nil, next
	}
	e := q.due(tenant, now)
	e.running = true
	return e, time.Time{}
}

// due is the tenant's first entry that no attempt runs on and that is due, or else will be due first; nil where there is none.
func (q *summaryQueue) due(tenant string, now time.Time) (first *summaryEntry) {
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

// give puts an entry back after an attempt: due again at a time, or, at the zero time, done with.
func (q *summaryQueue) give(e *summaryEntry, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.lines[e.tenant], e)
	line := slices.Delete(q.lines[e.tenant], at, at+1)
	q.turns.Free(e.tenant)
	e.running, e.due = false, due
	close(e.tried)
	e.tried = make(chan struct{})
	if !due.IsZero() {
		line = append(line, e) // behind those that wait already
	} else {
		delete(q.waiting, e.session)
	}
	if q.lines[e.tenant] = line; len(line) == 0 {
		delete(q.lines, e.tenant)
		q.turns.Leave(e.tenant)
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
