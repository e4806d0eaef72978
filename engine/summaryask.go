package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// summaryJob is the record of a summary to be made: one for a session, however many windows ask for it.
type summaryJob struct {
	Project  string      `json:"project"`
	PInc     incarnation `json:"pinc"`
	Session  string      `json:"session"`
	Through  uint64      `json:"through"`            // the last message to cover
	Attempts int         `json:"attempts,omitempty"` // that failed, in a row
	Less     int         `json:"less,omitempty"`     // how often what one call takes is halved
	NotYet   int64       `json:"not_yet,omitempty"`  // ms since 1970: no attempt before
	// Owner and Lease say who works on it and until when nobody else may. A result is taken only from the owner.
	Owner string `json:"owner,omitempty"`
	Lease int64  `json:"lease,omitempty"`
	// Anew: the summary is made again from the first message. Draft is how far that has come; the running summary
	// stays until it is whole.
	Anew  bool           `json:"anew,omitempty"`
	Draft *summaryRecord `json:"draft,omitempty"`
}

// summaryDue is when the next attempt on a job may be made: a process that is alone on its store need not wait for the
// lease of one that died.
func (e *Engine) summaryDue(job *summaryJob) time.Time {
	if e.alone {
		return timeOf(job.NotYet)
	}
	return timeOf(max(job.NotYet, job.Lease))
}

// askSummary sees to it that there is a job that extends a session's summary up to a message, and gives its place in
// the queue; nil where there is nothing to do any more.
func (e *Engine) askSummary(ctx context.Context, c Caller, projectID, session string, sinc incarnation, through uint64,
) (*summaryEntry, error) {
	if entry := e.summaries.next(sinc, e.now()); entry != nil {
		return entry, nil
	}
	due, err := update(ctx, e, c, Once{}, func(t *tx) (due *time.Time, err error) {
		p, err := t.project(c, projectID)
		if err != nil {
			return nil, err
		}
		key := kindSummaryJob.Key(sinc)
		got, err := t.get(kindSession.Key(p.Incarnation, session), key)
		if err != nil {
			return nil, err
		}
		var h head
		if got[0].Value == nil || json.Unmarshal(got[0].Value, &h) != nil || h.Incarnation != sinc {
			return nil, nil // deleted meanwhile
		}
		job := summaryJob{Project: projectID, PInc: p.Incarnation, Session: session, Through: through}
		if got[1].Value == nil {
			if err := t.putJSON(key, job); err != nil {
				return nil, err
			}
		} else if err := json.Unmarshal(got[1].Value, &job); err != nil {
			return nil, err
		}
		at := e.summaryDue(&job)
		return &at, nil
	})
	if err != nil || due == nil {
		return nil, err
	}
	return e.summaries.add(c.Tenant, sinc, *due), nil
}

// makeWanted sees to it that the summary that a window wishes for is made. Where the window may wait, it waits and
// tells whether the session has another summary by then.
func (e *Engine) makeWanted(ctx context.Context, w summaryWish) (changed bool) {
	entry, err := e.askSummary(ctx, w.caller, w.project, w.session, w.sinc, w.through)
	if err != nil {
		e.log.Warn("a summary could not be asked for; the window goes without it", "tenant", w.caller.Tenant, "error", err)
		return false
	}
	return entry != nil && w.wait > 0 && e.awaitSummary(ctx, &w, entry)
}

// foreignPoll is how often a wait looks for a summary that another server makes.
const foreignPoll = 200 * time.Millisecond

// awaitSummary waits for an attempt on a job, at most as long as a window may, and tells whether the session has
// another summary than the window was made with. A job that backs off for longer is not waited for.
func (e *Engine) awaitSummary(ctx context.Context, w *summaryWish, entry *summaryEntry) bool {
	wait, key := w.wait, kindSession.Key(w.pinc, w.session)
	if deadline, ok := ctx.Deadline(); ok { // the window itself takes time too
		wait = min(wait, time.Until(deadline)/2)
	}
	tried, soon := e.summaries.attempt(entry, e.now().Add(wait))
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
		r, err := e.store.Read(ctx, w.caller.Tenant, store.Query{Keys: [][]byte{key}})
		if err != nil {
			return false
		}
		var h head
		if r.Keys[0].Value == nil || json.Unmarshal(r.Keys[0].Value, &h) != nil || h.covered() != w.had {
			return true
		}
		if ended {
			return false
		}
	}
}

// SummaryAction is what may be done with a session's summary.
type SummaryAction struct {
	// Action is refresh: make it anew from the messages, all but the newest summary_keep_last; or reset: forget it.
	Action string `json:"action"`
}

// SummaryAnswer is the session after an action. Queued says that a summary will be made.
type SummaryAnswer struct {
	Session
	Queued bool `json:"queued"`
}

// ActOnSummary refreshes or resets a session's summary. The running summary stays until a refresh is done. It answers
// invalid_value for an unknown action, no_summariser for a refresh without a provider, and not_found.
func (e *Engine) ActOnSummary(ctx context.Context, c Caller, once Once, projectID, id string, act SummaryAction,
) (SummaryAnswer, error) {
	switch act.Action {
	case "refresh":
		return e.refreshSummary(ctx, c, once, projectID, id)
	case "reset":
		return e.resetSummary(ctx, c, once, projectID, id)
	}
	return SummaryAnswer{}, invalidField("action", "invalid_value", "must be refresh or reset")
}

func (e *Engine) resetSummary(ctx context.Context, c Caller, once Once, projectID, id string) (SummaryAnswer, error) {
	_, h, err := e.existing(ctx, c, projectID, id)
	if err != nil {
		return SummaryAnswer{}, err
	}
	unlock, err := e.lockSession(ctx, c.Tenant, projectID, id)
	if err != nil {
		return SummaryAnswer{}, err
	}
	defer unlock()
	return update(ctx, e, c, once, func(t *tx) (SummaryAnswer, error) {
		p, h, set, err := t.sessionForSummary(c, projectID, id, h.Incarnation)
		if err != nil {
			return SummaryAnswer{}, err
		}
		if h.Turns > 0 {
			t.delete(kindSummaryJob.Key(h.Incarnation))
		}
		if s := h.covered(); s.Covers > 0 {
			t.retireSummary(h, set)
			h.Summary = &summaryHead{Version: s.Version}
			if err := t.putJSON(kindSession.Key(p.Incarnation, id), h); err != nil {
				return SummaryAnswer{}, err
			}
		}
		return SummaryAnswer{Session: h.session(id, set.encoding)}, nil
	})
}

// sessionForSummary reads a session's head and expects it unchanged.
func (t *tx) sessionForSummary(c Caller, projectID, id string, sinc incarnation) (*project, *head, *setup, error) {
	p, err := t.project(c, projectID)
	if err != nil {
		return nil, nil, nil, err
	}
	set, err := t.e.setupOf(p)
	if err != nil {
		return nil, nil, nil, err
	}
	got, err := t.get(kindSession.Key(p.Incarnation, id))
	if err != nil {
		return nil, nil, nil, err
	}
	h := new(head)
	if got[0].Value == nil {
		if sinc != (incarnation{}) {
			return nil, nil, nil, errorf(NotFound, "not_found", "no session %q", id)
		}
		h.Kind = kindChat // dashboard, before its first turn
		return p, h, set, nil
	}
	return p, h, set, json.Unmarshal(got[0].Value, h)
}

// retireSummary lets the text of a session's summary go once no decision that used it is kept any more.
func (t *tx) retireSummary(h *head, set *setup) {
	until := t.now.AddDate(0, 0, set.settings.DecisionRetentionDays+1)
	t.put(kindExpiry.Key(until, kindSummary.Key(h.Incarnation, h.Summary.Version)), []byte{0})
}

func (e *Engine) refreshSummary(ctx context.Context, c Caller, once Once, projectID, id string) (SummaryAnswer, error) {
	if e.summariser == nil {
		return SummaryAnswer{}, errorf(Conflict, "no_summariser",
			"no provider for summaries is configured; the operator names one, see the configuration")
	}
	p, h, raw, err := e.readSession(ctx, c, projectID, id)
	if err != nil {
		return SummaryAnswer{}, err
	}
	set, err := e.setupOf(p)
	if err != nil {
		return SummaryAnswer{}, err
	}
	through := uint64(0)
	if h.Kind != kindBackground && h.Turns > 0 {
		v, _, err := e.current(ctx, c.Tenant, h, raw, maxConsidered)
		if err != nil {
			return SummaryAnswer{}, err
		}
		through = max(v.allBut(set.settings.SummaryKeepLast), h.covered().Covers)
	}
	var due time.Time
	out, err := update(ctx, e, c, once, func(t *tx) (SummaryAnswer, error) {
		p, now, set, err := t.sessionForSummary(c, projectID, id, h.Incarnation)
		if err != nil {
			return SummaryAnswer{}, err
		}
		out := SummaryAnswer{Session: now.session(id, set.encoding)}
		if through == 0 || now.Incarnation != h.Incarnation {
			return out, nil
		}
		h = now
		due, err = t.askAnew(projectID, p, id, h.Incarnation, through)
		out.Queued = err == nil
		return out, err
	})
	if err != nil {
		return out, err
	}
	if out.Queued {
		e.summaries.add(c.Tenant, h.Incarnation, due)
	}
	return out, e.showSummaries(ctx, c.Tenant, []summaryOf{{&out.Session, h}})
}

// askAnew makes sure of a job that makes a session's summary anew, and says when it is due: asking often makes no call
// sooner, nor one that is under way worthless.
func (t *tx) askAnew(projectID string, p *project, id string, sinc incarnation, through uint64) (time.Time, error) {
	key := kindSummaryJob.Key(sinc)
	got, err := t.get(key)
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
			return t.e.summaryDue(&there), nil
		}
		job.Attempts, job.NotYet, job.Less = there.Attempts, there.NotYet, there.Less
	}
	return t.e.summaryDue(&job), t.putJSON(key, job)
}
