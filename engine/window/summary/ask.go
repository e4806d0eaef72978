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

// task is the record of a summary to be made, under SummaryJob: one for a session, however many windows ask for it.
type task struct {
	Project  string            `json:"project"`
	PInc     ident.Incarnation `json:"pinc"`
	Session  string            `json:"session"`
	Through  uint64            `json:"through"`            // the last message that the summary is to cover
	Attempts int               `json:"attempts,omitempty"` // failed ones in a row
	Less     int               `json:"less,omitempty"`     // how often the input of one call is halved
	NotYet   int64             `json:"not_yet,omitempty"`  // no attempt is made before; milliseconds since 1970
	// Owner is who works on the task, and Lease until when nobody else may, in milliseconds since 1970. A result is
	// taken only from the owner.
	Owner string `json:"owner,omitempty"`
	Lease int64  `json:"lease,omitempty"`
	// Anew says that the summary is made again from the first message. Draft is how far that has come. The session
	// keeps the summary that it has until the draft is whole.
	Anew  bool                   `json:"anew,omitempty"`
	Draft *session.SummaryRecord `json:"draft,omitempty"`
}

// due is when the next attempt may be made. A process that is alone on its store need not wait for the lease of one
// that died.
func (svc *Service) due(job *task) time.Time {
	if svc.db.Alone {
		return records.TimeOf(job.NotYet)
	}
	return records.TimeOf(max(job.NotYet, job.Lease))
}

// ask makes sure of a task that extends a session's summary as a window wishes, and gives its entry in the queue. The
// entry is nil where the session is gone, the queue is full, or the session has another summary than the window was
// made with: whether that one is enough, only another window can tell.
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
			return nil, nil // deleted meanwhile
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

// MakeWanted sees to it that the summary that a window wishes for is made. Where the window may wait, it waits and
// tells whether the session has another summary by then.
func (svc *Service) MakeWanted(ctx context.Context, w window.SummaryWish) (changed bool) {
	entry, changed, err := svc.ask(ctx, &w)
	if err != nil {
		svc.db.Log.Warn("a summary could not be asked for; the window goes without it", "tenant", w.Caller.Tenant,
			"error", err)
		return false
	}
	return w.Wait > 0 && (changed || entry != nil && svc.await(ctx, &w, entry))
}

// foreignPoll is how often a wait looks for a summary that another server makes.
const foreignPoll = 200 * time.Millisecond

// await waits for an attempt on a task, at most as long as a window may, and tells whether the session has another
// summary then than the window was made with. It does not wait where the next attempt is later than that.
func (svc *Service) await(ctx context.Context, w *window.SummaryWish, entry *entry) bool {
	wait, key := w.Wait, records.Session.Key(w.Pinc, w.Session)
	if deadline, ok := ctx.Deadline(); ok { // Half of the time is left for the window itself.
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
