package summary

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// task is the record of a summary to be made, stored under SummaryJob. Each session has at most one, however many
// windows request it.
type task struct {
	Project  string            `json:"project"`
	PInc     ident.Incarnation `json:"pinc"`
	Session  string            `json:"session"`
	Through  uint64            `json:"through"`            // the last message that the summary is to cover
	Attempts int               `json:"attempts,omitempty"` // failed ones in a row
	Less     int               `json:"less,omitempty"`     // how often the input of one call is halved
	NotYet   int64             `json:"not_yet,omitempty"`  // no attempt is made before; milliseconds since 1970
	// Owner identifies the process that works on the task. Lease is the time until which no other process may, in
	// milliseconds since 1970. Only the owner's result is accepted.
	Owner string `json:"owner,omitempty"`
	Lease int64  `json:"lease,omitempty"`
	// Anew means that a new summary is made from the first message on. Draft is the unfinished summary; the session
	// keeps its old one until the draft is complete.
	Anew  bool                   `json:"anew,omitempty"`
	Draft *session.SummaryRecord `json:"draft,omitempty"`
}

// due returns when the next attempt may be made. A process that has the store to itself ignores leases of earlier
// processes.
func (svc *Service) due(job *task) time.Time {
	if svc.db.Alone {
		return records.TimeOf(job.NotYet)
	}
	return records.TimeOf(max(job.NotYet, job.Lease))
}

// ask makes sure that there is a task to extend a session's summary as a window requests, and returns its entry in the
// queue. The entry is nil if the session was deleted, the queue is full, or the session's summary has changed since the
// window was made. In the last case, only a new window can tell whether the new summary suffices.
func (svc *Service) ask(ctx context.Context, w *window.SummaryWish) (_ *entry, changed bool, err error) {
	if entry := svc.queue.next(w.Sinc, svc.db.Now()); entry != nil {
		return entry, false, nil
	}
	due, err := records.Update(ctx, svc.db, w.Caller, ident.Once{}, func(t *records.Tx) (due *time.Time, err error) {
		p, err := svc.projects.Project(t, w.Caller.Unconfined(), w.Project)
		if err != nil {
			return nil, err
		}
		key := records.SummaryJob.Key(w.Sinc)
		got, err := t.Get(records.Session.Key(p.Incarnation, w.Session), key)
		if err != nil {
			return nil, err
		}
		var h session.Head
		if got[0].Value == nil || json.Unmarshal(got[0].Value, &h) != nil || h.Incarnation != w.Sinc {
			return nil, nil // deleted in the meantime
		}
		if changed = h.Covered() != w.Had; changed {
			return nil, nil
		}
		job := task{Project: w.Project, PInc: p.Incarnation, Session: w.Session, Through: w.Through}
		if got[1].Value == nil {
			if err := t.PutJSON(key, job); err != nil {
				return nil, err
			}
		} else if err := json.Unmarshal(got[1].Value, &job); err != nil {
			return nil, err
		}
		at := svc.due(&job)
		return &at, nil
	})
	if err != nil || due == nil {
		return nil, changed, err
	}
	return svc.queue.add(w.Caller.Tenant, w.Sinc, *due), false, nil
}

// MakeWanted queues the summary that a window requests. If the window may wait, it waits for the summary and reports
// whether the session has a new one.
func (svc *Service) MakeWanted(ctx context.Context, w window.SummaryWish) (changed bool) {
	entry, changed, err := svc.ask(ctx, &w)
	if err != nil {
		svc.db.Log.Warn("a summary could not be asked for; the window goes without it", "tenant", w.Caller.Tenant,
			"error", err)
		return false
	}
	return w.Wait > 0 && (changed || entry != nil && svc.await(ctx, &w, entry))
}

// foreignPoll is the interval at which a wait checks for a summary that another server makes.
const foreignPoll = 200 * time.Millisecond

// await waits for an attempt on a task, for as long as the window may wait, and reports whether the session's summary
// has changed since the window was made. It does not wait if the next attempt begins too late.
func (svc *Service) await(ctx context.Context, w *window.SummaryWish, entry *entry) bool {
	wait, key := w.Wait, records.Session.Key(w.Pinc, w.Session)
	if deadline, ok := ctx.Deadline(); ok { // Leave half of the time for the window itself.
		wait = min(wait, time.Until(deadline)/2)
	}
	tried, soon := svc.queue.attempt(entry, svc.db.Now().Add(wait))
	if !soon {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	poll := time.NewTicker(foreignPoll)
	defer poll.Stop()
	defer admission.Pause(ctx)()
	for {
		ended := false
		select {
		case <-ctx.Done():
			return false
		case <-tried:
			ended = true
		case <-poll.C:
		}
		it, err := svc.db.ReadItem(ctx, w.Caller.Tenant, key)
		if err != nil {
			return false
		}
		var h session.Head
		if it.Value == nil || json.Unmarshal(it.Value, &h) != nil || h.Covered() != w.Had {
			return true
		}
		if ended {
			return false
		}
	}
}
