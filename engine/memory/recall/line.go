package recall

import (
	"context"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
)

// embedWorkers are how many calls of the provider run at once for documents, each of them for another tenant.
const embedWorkers = 4

// line is the tenants whose documents may lack vectors, each of which has its turn. It can be lost: a look at all
// tenants finds it again.
type line struct {
	mu      sync.Mutex
	turns   *admission.Turns
	tenants map[string]*inLine
	bell    jobs.Bell
}

// inLine is one tenant in line.
type inLine struct {
	due     time.Time
	running bool
	again   bool // it was added while a worker had it
}

func newLine() *line {
	return &line{turns: admission.NewTurns(embedWorkers, 1), tenants: map[string]*inLine{}}
}

// add puts a tenant into the line, due at once.
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

// take gives the tenant whose turn it is, among those that are due. Where there is none, it says when to look again;
// that is the zero time where nothing waits for time to pass. Whoever takes a tenant must give it back.
func (l *line) take(now time.Time) (tenant string, next time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tenant, next, ok = l.turns.NextDue(now, func(tenant string) (time.Time, bool) { return l.tenants[tenant].due, true })
	if ok {
		l.tenants[tenant].running = true
	}
	return tenant, next, ok
}

// give puts a tenant back, due at a time; at the zero time there is nothing more to do for it.
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

// MakeVectors does one unit of the work of making vectors, with one call of the provider at most, for the first tenant
// in turn that has some, and tells whether there was any. If not, next is when to look again, or the zero time where
// nothing waits for time to pass.
func (svc *Service) MakeVectors(ctx context.Context) (done bool, next time.Time, err error) {
	if svc.embedding.embedder == nil {
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

// Start has vectors made, for several tenants at once, until ctx ends, where there is a provider.
func (svc *Service) Start(ctx context.Context, running *sync.WaitGroup) {
	if svc.embedding.embedder == nil {
		return
	}
	for range embedWorkers {
		running.Go(func() { jobs.Work(ctx, svc.db, &svc.embedding.line.bell, "making vectors", svc.MakeVectors) })
	}
}
