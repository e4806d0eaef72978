package recall

import (
	"context"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
)

// embedWorkers is the number of concurrent calls of the provider for documents, each for another tenant.
const embedWorkers = 4

// line is a queue of tenants whose documents may lack vectors. It may be lost: a scan of all tenants restores it.
type line struct {
	mu      sync.Mutex
	turns   *admission.Turns
	tenants map[string]*inLine
	bell    jobs.Bell
}

// inLine is one tenant in the queue.
type inLine struct {
	due     time.Time
	running bool
	again   bool // it was added while a worker had it
}

func newLine() *line {
	return &line{turns: admission.NewTurns(embedWorkers, 1), tenants: map[string]*inLine{}}
}

// add adds a tenant to the queue, due immediately.
func (l *line) add(tenant string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.tenants[tenant]
	switch {
	case in == nil:
		l.tenants[tenant] = &inLine{due: now}
		l.turns.Wait(tenant)
	case in.running:
		in.again = true
		return
	case in.due.After(now):
		in.due = now
	default:
		return
	}
	l.bell.Ring()
}

// take returns the next tenant that is due. If there is none, next says when to look again, or is the zero time if no
// tenant waits for a time. The caller must give a tenant back.
func (l *line) take(now time.Time) (tenant string, next time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tenant, next, ok = l.turns.NextDue(now, func(tenant string) (time.Time, bool) { return l.tenants[tenant].due, true })
	if ok {
		l.tenants[tenant].running = true
	}
	return tenant, next, ok
}

// give returns a tenant to the queue, due at a time. The zero time means that there is nothing more to do for it.
func (l *line) give(tenant string, due, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.tenants[tenant]
	l.turns.Free(tenant)
	if in.again {
		due = now
	}
	in.due, in.running, in.again = due, false, false
	if due.IsZero() {
		delete(l.tenants, tenant)
		l.turns.Leave(tenant)
	}
	l.bell.Ring()
}

// MakeVectors does one unit of the work of making vectors, with at most one call of the provider, for the next tenant
// that has some. It reports whether there was any. If not, next is when to look again, or the zero time if no tenant
// waits for a time.
func (svc *Service) MakeVectors(ctx context.Context) (done bool, next time.Time, err error) {
	if !svc.embedding.any() {
		return false, time.Time{}, nil
	}
	for line := svc.embedding.line; !done && err == nil; {
		tenant, next, ok := line.take(svc.db.Now())
		if !ok {
			return false, next, nil
		}
		var due time.Time
		done, due, err = svc.stepVectors(ctx, tenant)
		now := svc.db.Now()
		if err != nil {
			due = now.Add(time.Minute) // The store failed, not the provider.
		} else if done {
			due = now
		}
		line.give(tenant, due, now)
	}
	return done, next, err
}

// Start makes vectors, for several tenants concurrently, until ctx is done. It does nothing without a provider and a
// static model.
func (svc *Service) Start(ctx context.Context, running *sync.WaitGroup) {
	if !svc.embedding.any() {
		return
	}
	for range embedWorkers {
		running.Go(func() { jobs.Work(ctx, svc.db, &svc.embedding.line.bell, "making vectors", svc.MakeVectors) })
	}
}
