package summary

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/project"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/window"
)

// summaryJob is the record of a summary to be made: one for a session, however many windows ask for it.
type summaryJob struct {
	Project  string            `json:"project"`
	PInc     ident.Incarnation `json:"pinc"`
	Session  string            `json:"session"`
	Through  uint64            `json:"through"`            // the last message to cover
	Attempts int               `json:"attempts,omitempty"` // that failed, in a row
	Less     int               `json:"less,omitempty"`     // how often what one call takes is halved
	NotYet   int64             `json:"not_yet,omitempty"`  // ms since 1970: no attempt before
	// Owner and Lease say who works on it and until when nobody else may. A result is taken only from the owner.
	Owner string `json:"owner,omitempty"`
	Lease int64  `json:"lease,omitempty"`
	// Anew: the summary is made again from the first message. Draft is how far that has come; the running summary
	// stays until it is whole.
	Anew  bool                   `json:"anew,omitempty"`
	Draft *session.SummaryRecord `json:"draft,omitempty"`
}

// due is when the next attempt on a job may be made: a process that is alone on its store need not wait for the
// lease of one that died.
func (svc *Service) due(job *summaryJob) time.Time {
	if svc.db.Alone {
		return records.TimeOf(job.NotYet)
	}
	return records.TimeOf(max(job.NotYet, job.Lease))
}

// ask sees to it that there is a job that extends a session's summary up to a message, and gives its place in
// the queue; nil where there is nothing to do any more.
func (svc *Service) ask(ctx context.Context, c access.Caller, projectID, sessionID string, sinc ident.Incarnation, through uint64,
) (*entry, error) {
	if entry := svc.queue.next(sinc, svc.db.Now()); entry != nil {
		return entry, nil
	}
	due, err := records.Update(ctx, svc.db, c, access.Once{}, func(t *records.Tx) (due *time.Time, err error) {
		p, err := svc.projects.Project(t, c, projectID)
		if err != nil {
			return nil, err
		}
		key := records.SummaryJob.Key(sinc)
		got, err := t.Get(records.Session.Key(p.Incarnation, sessionID), key)
		if err != nil {
			return nil, err
		}
		var h session.Head
		if got[0].Value == nil || json.Unmarshal(got[0].Value, &h) != nil || h.Incarnation != sinc {
			return nil, nil // deleted meanwhile
		}
		job := summaryJob{Project: projectID, PInc: p.Incarnation, Session: sessionID, Through: through}
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
		return nil, err
	}
	return svc.queue.add(c.Tenant, sinc, *due), nil
}

// MakeWanted sees to it that the summary that a window wishes for is made. Where the window may wait, it waits and
// tells whether the session has another summary by then.
func (svc *Service) MakeWanted(ctx context.Context, w window.SummaryWish) (changed bool) {
	entry, err := svc.ask(ctx, w.Caller, w.Project, w.Session, w.Sinc, w.Through)
	if err != nil {
		svc.db.Log.Warn("a summary could not be asked for; the window goes without it", "tenant", w.Caller.Tenant, "error", err)
		return false
	}
	return entry != nil && w.Wait > 0 && svc.await(ctx, &w, entry)
}

// foreignPoll is how often a wait looks for a summary that another server makes.
const foreignPoll = 200 * time.Millisecond

// await waits for an attempt on a job, at most as long as a window may, and tells whether the session has
// another summary than the window was made with. A job that backs off for longer is not waited for.
func (svc *Service) await(ctx context.Context, w *window.SummaryWish, entry *entry) bool {
	wait, key := w.Wait, records.Session.Key(w.Pinc, w.Session)
	if deadline, ok := ctx.Deadline(); ok { // the window itself takes time too
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
	for {
		ended := false
		select {
		case <-ctx.Done():
			return false
		case <-tried:
			ended = true
		case <-poll.C:
		}
		r, err := svc.db.Store.Read(ctx, w.Caller.Tenant, store.Query{Keys: [][]byte{key}})
		if err != nil {
			return false
		}
		var h session.Head
		if r.Keys[0].Value == nil || json.Unmarshal(r.Keys[0].Value, &h) != nil || h.Covered() != w.Had {
			return true
		}
		if ended {
			return false
		}
	}
}

// Action is what may be done with a session's summary.
type Action struct {
	// Action is refresh: make it anew from the messages, all but the newest summary_keep_last; or reset: forget it.
	Action string `json:"action"`
}

// Answer is the session after an action. Queued says that a summary will be made.
type Answer struct {
	session.Session
	Queued bool `json:"queued"`
}

// ActOn refreshes or resets a session's summary. The running summary stays until a refresh is done. It answers
// invalid_value for an unknown action, no_summariser for a refresh without a provider, and not_found.
func (svc *Service) ActOn(ctx context.Context, c access.Caller, once access.Once, projectID, id string, act Action,
) (Answer, error) {
	switch act.Action {
	case "refresh":
		return svc.refresh(ctx, c, once, projectID, id)
	case "reset":
		return svc.reset(ctx, c, once, projectID, id)
	}
	return Answer{}, fault.InvalidField("action", "invalid_value", "must be refresh or reset")
}

func (svc *Service) reset(ctx context.Context, c access.Caller, once access.Once, projectID, id string) (Answer, error) {
	_, h, err := svc.sessions.Existing(ctx, c, projectID, id)
	if err != nil {
		return Answer{}, err
	}
	unlock, err := svc.sessions.Lock(ctx, c.Tenant, projectID, id)
	if err != nil {
		return Answer{}, err
	}
	defer unlock()
	return records.Update(ctx, svc.db, c, once, func(t *records.Tx) (Answer, error) {
		p, h, set, err := svc.sessionFor(t, c, projectID, id, h.Incarnation)
		if err != nil {
			return Answer{}, err
		}
		if h.Turns > 0 {
			t.Delete(records.SummaryJob.Key(h.Incarnation))
		}
		if s := h.Covered(); s.Covers > 0 {
			retire(t, h, set)
			h.Summary = &session.SummaryHead{Version: s.Version}
			if err := t.PutJSON(records.Session.Key(p.Incarnation, id), h); err != nil {
				return Answer{}, err
			}
		}
		return Answer{Session: h.Session(id, set.Encoding)}, nil
	})
}

// sessionFor reads a session's head and expects it unchanged.
func (svc *Service) sessionFor(t *records.Tx, c access.Caller, projectID, id string, sinc ident.Incarnation) (*project.Record, *session.Head, *project.Setup, error) {
	p, err := svc.projects.Project(t, c, projectID)
	if err != nil {
		return nil, nil, nil, err
	}
	set, err := svc.projects.SetupOf(p)
	if err != nil {
		return nil, nil, nil, err
	}
	got, err := t.Get(records.Session.Key(p.Incarnation, id))
	if err != nil {
		return nil, nil, nil, err
	}
	h := new(session.Head)
	if got[0].Value == nil {
		if sinc != (ident.Incarnation{}) {
			return nil, nil, nil, fault.Errorf(fault.NotFound, "not_found", "no session %q", id)
		}
		h.Kind = session.KindChat // dashboard, before its first turn
		return p, h, set, nil
	}
	return p, h, set, json.Unmarshal(got[0].Value, h)
}

// retire lets the text of a session's summary go once no decision that used it is kept any more.
func retire(t *records.Tx, h *session.Head, set *project.Setup) {
	until := t.Now.AddDate(0, 0, set.Settings.DecisionRetentionDays+1)
	t.Put(records.Expiry.Key(until, records.Summary.Key(h.Incarnation, h.Summary.Version)), []byte{0})
}

func (svc *Service) refresh(ctx context.Context, c access.Caller, once access.Once, projectID, id string) (Answer, error) {
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
		out := Answer{Session: now.Session(id, set.Encoding)}
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
	if out.Queued {
		svc.queue.add(c.Tenant, h.Incarnation, due)
	}
	return out, svc.sessions.ShowSummaries(ctx, c.Tenant, []session.SummaryOf{{Session: &out.Session, Head: h}})
}

// askAnew makes sure of a job that makes a session's summary anew, and says when it is due: asking often makes no call
// sooner, nor one that is under way worthless.
func (svc *Service) askAnew(t *records.Tx, projectID string, p *project.Record, id string, sinc ident.Incarnation, through uint64) (time.Time, error) {
	key := records.SummaryJob.Key(sinc)
	got, err := t.Get(key)
	if err != nil {
		return time.Time{}, err
	}
	job := summaryJob{Project: projectID, PInc: p.Incarnation, Session: id, Through: through, Anew: true}
	if got[0].Value != nil {
		var there summaryJob
		if err := json.Unmarshal(got[0].Value, &there); err != nil {
			return time.Time{}, err
		}
		if there.Anew && there.Through >= through {
			return svc.due(&there), nil
		}
		job.Attempts, job.NotYet, job.Less = there.Attempts, there.NotYet, there.Less
	}
	return svc.due(&job), t.PutJSON(key, job)
}
