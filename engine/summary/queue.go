package summary

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fair"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// workers is how many calls of the provider run at once, perTenant how many of them for one tenant.
	workers   = 4
	perTenant = 2
	// maxWaiting bounds the jobs of a tenant that a process remembers; the store holds them all, and looks at it, a
	// page each, find the rest.
	maxWaiting = 1000
	// page is how many jobs one look reads.
	page = 64
)

// queue is what this process knows of the summaries to be made, tenant by tenant, so that each has its turn.
// What there is to do is said by the records in the store alone. openSummaries makes it ready.
type queue struct {
	mu      sync.Mutex
	turns   *fair.Turns
	lines   map[string][]*entry // by tenant, in the order in which they came
	waiting map[ident.Incarnation]*entry
	holds   map[string]time.Time // by model: the provider wants no calls before
	pages   map[string][]byte    // by tenant: the last key that a look has read; none: it begins anew
	changed chan struct{}        // closed when something may have come due
}

// entry is one session whose summary is to be made.
type entry struct {
	tenant  string
	session ident.Incarnation
	due     time.Time
	running bool
	tried   chan struct{} // closed when the next attempt has ended
}

// next gives a session's entry where an attempt runs or is due; else nil: another process may have ended the job.
func (q *queue) next(session ident.Incarnation, now time.Time) *entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.waiting[session]; e != nil && (e.running || !e.due.After(now)) {
		return e
	}
	return nil
}

// add queues a session, or makes it due earlier, and gives its entry; nil where the queue is full.
func (q *queue) add(tenant string, session ident.Incarnation, due time.Time) *entry {
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
	e := &entry{tenant: tenant, session: session, due: due, tried: make(chan struct{})}
	q.waiting[session] = e
	q.lines[tenant] = append(q.lines[tenant], e)
	q.turns.Wait(tenant)
	q.signal()
	return e
}

// signal wakes all who wait; under mu.
func (q *queue) signal() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// watch gives what is closed when something may have come due.
func (q *queue) watch() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// summaryJobs are the jobs that the next look at a tenant reads. A look that finds none is followed by one from the
// start.
func (q *queue) summaryJobs(tenant string) store.Range {
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

// enqueue notes jobs that this process may not know yet, of a start before or of other servers, and tells
// whether there may be more of them. Those that failed often wait for somebody to ask.
func (svc *Service) enqueue(tenant string, found []store.Item) (more bool) {
	for _, it := range found {
		var job summaryJob
		if !it.Damaged && (json.Unmarshal(it.Value, &job) != nil || job.Attempts >= maxSummaryAttempts) {
			continue
		}
		session := ident.Incarnation(it.Key[len(it.Key)-8:])
		if !svc.queue.knows(session) { // else it is known better when it is due
			more = svc.queue.add(tenant, session, svc.due(&job)) != nil || more
		}
	}
	svc.queue.turn(tenant, found)
	return more && len(found) == page
}

func (q *queue) knows(session ident.Incarnation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[session] != nil
}

// turn notes how far looks at a tenant have come.
func (q *queue) turn(tenant string, found []store.Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(found); n == page {
		q.pages[tenant] = found[n-1].Key
	}
}

// take gives an entry that is due, of the tenant whose turn it is, or nil and when to look again; the zero time where
// nothing waits for time to pass. Who takes an entry must give it back.
func (q *queue) take(now time.Time) (*entry, time.Time) {
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

// give puts an entry back after an attempt: due again at a time, or, at the zero time, done with.
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
func (q *queue) hold(model string, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until.After(q.holds[model]) {
		q.holds[model] = until
	}
}

// held is the time until which calls of a model are held back; zero: they are not.
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

// attempt is what ends with the entry's next attempt, and whether one may come before a time.
func (q *queue) attempt(e *entry, before time.Time) (tried <-chan struct{}, soon bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.tried, e.running || e.due.Before(before)
}

// MakeSummary makes one attempt on one job, if any is due, and tells whether it did; if not, when to look again.
func (svc *Service) MakeSummary(ctx context.Context) (done bool, next time.Time, err error) {
	if svc.summariser == nil {
		return false, time.Time{}, nil
	}
	entry, next := svc.queue.take(svc.db.Now())
	if entry == nil {
		return false, next, nil
	}
	due, err := svc.workOn(ctx, entry)
	if err != nil { // the store's trouble: the record is still there
		due = svc.db.Now().Add(svc.jittered(maxSummaryBackoff / 15))
	}
	svc.queue.give(entry, due)
	return true, time.Time{}, err
}

// run makes summaries, one at a time, until ctx ends.
func (svc *Service) run(ctx context.Context) {
	for ctx.Err() == nil {
		changed := svc.queue.watch()
		done, next, err := svc.MakeSummary(ctx)
		if err != nil && ctx.Err() == nil {
			svc.db.Log.Error("making a summary failed; it is tried again later", "error", err)
		}
		if done {
			continue
		}
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(max(time.Millisecond, next.Sub(svc.db.Now())))
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due:
		}
	}
}
