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
	// workers is how many calls of the provider run at once, perTenant how many of them for one tenant.
	workers   = 4
	perTenant = 2
	// maxWaiting bounds the tasks of a tenant that a process remembers. The store holds all of them, and looks at it
	// find the rest.
	maxWaiting = 1000
	// page is how many tasks one look reads.
	page = 64
)

// queue is what this process knows of the tasks, tenant by tenant, so that each has its turn. It may be lost or out of
// date, because the records in the store alone say what there is to do.
type queue struct {
	mu      sync.Mutex
	turns   *admission.Turns
	lines   map[string][]*entry // by tenant, in the order in which they came
	waiting map[ident.Incarnation]*entry
	holds   map[string]time.Time // by model: the provider wants no calls before that time
	pages   map[string][]byte    // by tenant: the last key that a look has read; without one, the next look begins anew
	bell    jobs.Bell
}

// entry is one session whose summary is to be made.
type entry struct {
	tenant  string
	session ident.Incarnation
	due     time.Time
	running bool
	tried   chan struct{} // closed when the next attempt has ended
}

// next gives a session's entry where an attempt runs or is due. Otherwise it is nil, because another process may have
// ended the task meanwhile.
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

// nextTasks are the tasks that the next look at a tenant reads. A look that finds none is followed by one from the
// start.
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

// enqueue queues tasks that this process may not know yet, because an earlier process or another server made them, and
// tells whether there may be more of them. It leaves out those that failed too often: they wait until somebody asks.
func (svc *Service) enqueue(tenant string, found []store.Item) (more bool) {
	for _, it := range found {
		var job task
		if !it.Damaged && (json.Unmarshal(it.Value, &job) != nil || job.Attempts >= maxAttempts) {
			continue
		}
		session, _ := records.SummaryJob.Split(it.Key)
		if !svc.queue.knows(session) { // The queue knows better when its own are due.
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

// looked notes how far looks at a tenant have come.
func (q *queue) looked(tenant string, found []store.Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(found); n == page {
		q.pages[tenant] = found[n-1].Key
	}
}

// take gives an entry that is due, of the tenant whose turn it is. Where none is due, it says when to look again; that
// is the zero time where nothing waits for time to pass. Whoever takes an entry must give it back.
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

// due is the tenant's first entry that is due, or otherwise the one that will be due first, among those on which no
// attempt runs.
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

// give puts an entry back after an attempt. It is due again at a time; at the zero time it is done with.
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
	q.lines[e.tenant] = line
	if len(line) == 0 {
		delete(q.lines, e.tenant)
		q.turns.Leave(e.tenant)
	}
	q.bell.Ring()
}

// hold keeps calls of a model back until a time.
func (q *queue) hold(model string, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until.After(q.holds[model]) {
		q.holds[model] = until
	}
}

// held is the time until which calls of a model are held back, or the zero time.
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

// attempt gives a channel that is closed when the entry's next attempt has ended, and tells whether one runs or is due
// before a time.
func (q *queue) attempt(e *entry, before time.Time) (tried <-chan struct{}, soon bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.tried, e.running || e.due.Before(before)
}

// MakeSummary makes one attempt on one task, where any is due, and tells whether it did. If not, next is when to look
// again, or the zero time where nothing waits for time to pass.
func (svc *Service) MakeSummary(ctx context.Context) (done bool, next time.Time, err error) {
	if svc.summariser == nil {
		return false, time.Time{}, nil
	}
	entry, next := svc.queue.take(svc.db.Now())
	if entry == nil {
		return false, next, nil
	}
	due, err := svc.workOn(ctx, entry)
	if err != nil { // The store failed, not the provider, and the record is still there.
		due = svc.db.Now().Add(svc.jittered(maxBackoff / 15))
	}
	svc.queue.give(entry, due)
	return true, time.Time{}, err
}
