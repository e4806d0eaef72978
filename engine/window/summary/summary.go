// Package summary makes running summaries of sessions with a language model.
//
// A window that leaves messages out may request a summary of them. The request becomes a task, which is a record; each
// session has at most one, however many windows ask. Workers of all servers take tasks, in turn for each tenant. An
// attempt is one call of the provider, which adds the next messages to the current summary. No transaction is open
// during the call: a worker claims a task with a lease, calls the provider, and stores the result only if the task is
// still its own and the session's summary has not changed.
package summary

import (
	"context"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/jobs"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
	"github.com/seed-0906e6bc/mneme/engine/verify"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// Service makes summaries in the background, one at a time for each session.
type Service struct {
	db         *records.DB
	projects   *project.Service
	sessions   *session.Service
	windows    *window.Service
	summariser Summariser
	queue      queue
}

// New returns a Service. If the summariser is nil, no summaries are made.
func New(db *records.DB, projects *project.Service, sessions *session.Service, windows *window.Service,
	s Summariser) *Service {
	return &Service{db: db, projects: projects, sessions: sessions, windows: windows, summariser: s,
		queue: queue{turns: admission.NewTurns(workers, perTenant), lines: map[string][]*entry{},
			waiting: map[ident.Incarnation]*entry{}, holds: map[string]time.Time{}, pages: map[string][]byte{}}}
}

// Units returns the background work of summaries, which queues tasks that this process may not know yet.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{{
		Due: func(tenant string, _ time.Time) store.Range { return svc.queue.nextTasks(tenant) },
		Do: func(_ context.Context, tenant string, found []store.Item) (bool, error) {
			return svc.enqueue(tenant, found), nil
		}}}
}

// Start starts workers that make summaries until ctx ends, if there is a provider.
func (svc *Service) Start(ctx context.Context, running *sync.WaitGroup) {
	if svc.summariser == nil {
		return
	}
	for range workers {
		running.Go(func() { jobs.Work(ctx, svc.db, &svc.queue.bell, "making a summary", svc.MakeSummary) })
	}
}

// Checks returns the checks of tasks. Finished summaries are checked with their sessions.
func Checks(sessions *session.Checks) verify.Checks {
	return verify.Checks{{Kind: records.SummaryJob, Record: func(s *verify.Space, it store.Item) {
		s.Decode(it, new(task))
		sinc, _ := records.SummaryJob.Split(it.Key)
		if sessions.Heads[sinc] == nil && !it.Damaged {
			s.Orphan("a summary of a session that does not exist is to be made").Harmless = true
		}
	}}}
}
