package summary

import (
	"context"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/tenant/project"
)

// Action is a request to change a session's summary.
type Action struct {
	// Action is "refresh", which makes a new summary of all messages except the newest summary_keep_last, or "reset",
	// which deletes the summary.
	Action string `json:"action"`
}

// Answer is the session after an action. Queued means that a summary will be made.
type Answer struct {
	session.Session
	Queued bool `json:"queued"`
}

// ActOn refreshes or resets a session's summary. During a refresh, the session keeps its old summary. Errors are
// invalid_value for an unknown action, no_summariser for a refresh without a provider, and not_found.
func (svc *Service) ActOn(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string,
	act Action) (Answer, error) {
	once.Scope = session.Scope(projectID, id)
	switch act.Action {
	case "refresh":
		return svc.refresh(ctx, c, once, projectID, id)
	case "reset":
		return svc.reset(ctx, c, once, projectID, id)
	}
	return Answer{}, fault.InvalidField("action", "invalid_value", "must be refresh or reset")
}

func (svc *Service) reset(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string,
) (Answer, error) {
	_, h, err := svc.sessions.Existing(ctx, c, projectID, id)
	if err != nil {
		return Answer{}, err
	}
	unlock, err := svc.sessions.Lock(ctx, c.Tenant, projectID, id)
	if err != nil {
		return Answer{}, err
	}
	defer unlock()
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Answer, error) {
		p, h, set, err := svc.sessionFor(t, c, projectID, id, h.Incarnation)
		if err != nil {
			return Answer{}, err
		}
		if h.Turns > 0 {
			t.Delete(records.SummaryJob.Key(h.Incarnation))
		}
		if s := h.Covered(); s.Covers > 0 {
			h.Retire(t, set)
			h.Summary = &session.SummaryHead{Version: s.Version, Since: s.Version + 1}
			if err := t.PutJSON(records.Session.Key(p.Incarnation, id), h); err != nil {
				return Answer{}, err
			}
		}
		return Answer{Session: h.Session(id, set.Encoding).Untitled()}, nil
	})
	out.Title, out.Metadata = h.Title, h.Metadata
	return out, err
}

// sessionFor reads a session for a change that assigns a number. It returns session_closed if the session takes no more
// changes, and not_found if there is no such session, unless sinc is zero: then it is `dashboard` before its first
// turn.
func (svc *Service) sessionFor(t *records.Tx, c ident.Caller, projectID, id string, sinc ident.Incarnation,
) (*project.Record, *session.Head, *project.Setup, error) {
	p, err := svc.projects.Project(t, c.Unconfined(), projectID)
	if err != nil {
		return nil, nil, nil, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return nil, nil, nil, err
	}
	h, err := records.GetTx[session.Head](t, records.Session.Key(p.Incarnation, id))
	if err != nil {
		return nil, nil, nil, err
	}
	if err := h.CheckReach(c, id); err != nil {
		return nil, nil, nil, err
	}
	if h == nil {
		if sinc != (ident.Incarnation{}) {
			return nil, nil, nil, fault.Errorf(fault.NotFound, "not_found", "no session %q", id)
		}
		h = &session.Head{Kind: session.KindChat}
	}
	return p, h, set, h.CheckOpen(id)
}

func (svc *Service) refresh(ctx context.Context, c ident.Caller, once ident.Once, projectID, id string,
) (Answer, error) {
	if svc.summariser == nil {
		return Answer{}, fault.Errorf(fault.Conflict, "no_summariser",
			"no provider for summaries is configured; the operator names one, see the configuration")
	}
	p, h, raw, err := svc.sessions.Read(ctx, c, projectID, id)
	if err != nil {
		return Answer{}, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return Answer{}, err
	}
	through := uint64(0)
	if h.Kind != session.KindBackground && h.Turns > 0 {
		if through, err = svc.windows.AllBut(ctx, c.Tenant, h, raw, set.Settings.SummaryKeepLast); err != nil {
			return Answer{}, err
		}
		through = max(through, h.Covered().Covers)
	}
	var due time.Time
	out, err := records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Answer, error) {
		p, now, set, err := svc.sessionFor(t, c, projectID, id, h.Incarnation)
		if err != nil {
			return Answer{}, err
		}
		out := Answer{Session: now.Session(id, set.Encoding).Untitled()}
		if through == 0 || now.Incarnation != h.Incarnation {
			return out, nil
		}
		h = now
		due, err = svc.askAnew(t, projectID, p, id, h.Incarnation, through)
		out.Queued = err == nil
		return out, err
	})
	if err != nil {
		return out, err
	}
	out.Title, out.Metadata = h.Title, h.Metadata
	if out.Queued {
		svc.queue.add(c.Tenant, h.Incarnation, due)
	}
	return out, svc.sessions.ShowSummaries(ctx, c.Tenant, []session.SummaryOf{{Session: &out.Session, Head: h}})
}

// askAnew makes sure that there is a task to make a new summary up to a message, and returns when it is due. If there
// is such a task already, it is not changed, so that asking again neither speeds up a call nor invalidates a running
// one.
func (svc *Service) askAnew(t *records.Tx, projectID string, p *project.Record, id string, sinc ident.Incarnation,
	through uint64) (time.Time, error) {
	key := records.SummaryJob.Key(sinc)
	there, err := records.GetTx[task](t, key)
	if err != nil {
		return time.Time{}, err
	}
	job := task{Project: projectID, PInc: p.Incarnation, Session: id, Through: through, Anew: true}
	if there != nil {
		if there.Anew && there.Through >= through {
			return svc.due(there), nil
		}
		job.Attempts, job.NotYet, job.Less = there.Attempts, there.NotYet, there.Less
	}
	return svc.due(&job), t.PutJSON(key, job)
}
