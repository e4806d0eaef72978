// Package summary makes running summaries of sessions with a language model.
//
// A window that leaves messages out may wish for a summary of them. The wish becomes a task: a record, one for a
// session, however many windows ask. Workers of every server take tasks in turn, fair between tenants, and make one
// call of the provider for each attempt: it folds the next messages into the summary that there is. The hard idea is
// that no transaction is held across a call. A worker claims a task with a lease, calls, and stores the result only
// where the task is still its own and the session has the summary that the call went on from.
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

// Service makes summaries in the background, one of a session at a time.
type Service struct {
	db         *records.DB
	projects   *project.Service
	sessions   *session.Service
	windows    *window.Service
	summariser Summariser
	queue      queue
}

// New makes the room; with a nil summariser no summaries are made.
func New(db *records.DB, projects *project.Service, sessions *session.Service, windows *window.Service,
	s Summariser) *Service {
	return &Service{db: db, projects: projects, sessions: sessions, windows: windows, summariser: s,
		queue: queue{turns: admission.NewTurns(workers, perTenant), lines: map[string][]*entry{},
			waiting: map[ident.Incarnation]*entry{}, holds: map[string]time.Time{}, pages: map[string][]byte{}}}
}

// Units are the background work of summaries: it queues tasks that this process may not know yet.
func (svc *Service) Units() []jobs.Unit {
	return []jobs.Unit{{
		Due: func(tenant string, _ time.Time) store.Range { return svc.queue.nextTasks(tenant) },
		Do: func(_ context.Context, tenant string, found []store.Item) (bool, error) {
			return svc.enqueue(tenant, found), nil
		}}}
}

// Start has summaries made, several at once, until ctx ends, where there is a provider.
func (svc *Service) Start(ctx context.Context, running *sync.WaitGroup) {
	if svc.summariser == nil {
		return
	}
	for range workers {
		running.Go(func() { jobs.Work(ctx, svc.db, &svc.queue.bell, "making a summary", svc.MakeSummary) })
	}
}

// Checks are of summaries that are still to be made. Those that are made are checked with their sessions.
func Checks(sessions *session.Checks) verify.Checks {
	return verify.Checks{{Kind: records.SummaryJob, Record: func(s *verify.Space, it store.Item) {
		s.Decode(it, new(task))
		sinc, _ := records.SummaryJob.Split(it.Key)
		if sessions.Heads[sinc] == nil && !it.Damaged {
			s.Orphan("a summary of a session that does not exist is to be made").Harmless = true
		}
	}}}
}
