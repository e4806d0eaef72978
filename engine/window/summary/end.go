package summary

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/tenant"
)

// keep stores a summary, the session's head and the new state of the task in one commit. If another process has taken
// over the task, the result is too late and changes nothing. calls is the number of calls of the provider that the
// result took.
func (w *work) keep(ctx context.Context, sinc ident.Incarnation, f *fold, reply Reply, calls int64,
) (time.Time, error) {
	rec := &session.SummaryRecord{Text: reply.Text, FirstTurn: f.turns[0], LastTurn: f.turns[1], Covers: f.covers,
		Count: f.count, Model: reply.Model, Prompt: w.svc.summariser.Prompt()}
	if w.from != nil {
		rec.FirstTurn, rec.Count = w.from.FirstTurn, rec.Count+w.from.Count
		rec.LastTurn = max(rec.LastTurn, w.from.LastTurn)
		if calls == 0 {
			rec.Prompt = w.from.Prompt
		}
	}
	unlock, err := w.svc.sessions.Lock(ctx, w.tenant, w.job.Project, w.job.Session)
	if err != nil {
		return time.Time{}, err
	}
	defer unlock()
	return w.update(ctx, func(t *records.Tx) (due time.Time, err error) {
		if err := tenant.Use(t, tenant.UsageRecord{Summaries: tenant.SummaryUsage{Calls: calls,
			TokensIn: int64(reply.TokensIn), TokensOut: int64(reply.TokensOut)}}); err != nil {
			return due, err
		}
		if mine, err := w.owns(t); err != nil || !mine {
			return t.Now, err
		}
		rewound, err := w.rewound(t, sinc)
		if err != nil {
			return due, err
		}
		rec.Created = t.Now
		next := w.job
		if rewound { // The attempt may have read messages that were superseded since, so another one begins at once.
			next.Owner, next.Lease = "", 0
			return t.Now, t.PutJSON(w.key, next)
		}
		next.Owner, next.Lease, next.Attempts, next.NotYet, next.Less, next.Draft = "", 0, 0, 0, 0, nil
		more := rec.Covers < w.job.Through
		if more {
			due = t.Now
			if w.job.Anew {
				next.Draft = rec
			}
			if err := t.PutJSON(w.key, next); err != nil {
				return due, err
			}
		} else {
			t.Delete(w.key)
		}
		if more && w.job.Anew {
			return due, nil
		}
		return due, w.set(t, sinc, rec)
	})
}

// rewound reports whether the session was rewound, or messages of it changed, since the attempt began.
func (w *work) rewound(t *records.Tx, sinc ident.Incarnation) (bool, error) {
	_, h, _, err := w.svc.sessionFor(t, ident.Caller{Tenant: w.tenant}, w.job.Project, w.job.Session, sinc)
	return err == nil && (!h.Superseded.Equal(w.gone) || h.Edits != w.edits), err
}

// update runs a transaction of the task's tenant.
func (w *work) update(ctx context.Context, do func(*records.Tx) (time.Time, error)) (time.Time, error) {
	return records.Update(ctx, w.svc.db, ident.Caller{Tenant: w.tenant}, ident.Once{}, do)
}

// set makes a summary the session's current one. It returns summary_changed if the session's summary has changed since
// the attempt began.
func (w *work) set(t *records.Tx, sinc ident.Incarnation, rec *session.SummaryRecord) error {
	p, h, set, err := w.svc.sessionFor(t, ident.Caller{Tenant: w.tenant}, w.job.Project, w.job.Session, sinc)
	if err != nil {
		return err
	}
	if h.Incarnation != sinc || h.Covered() != w.head {
		return fault.Errorf(fault.Conflict, "summary_changed", "the session's summary is another by now")
	}
	rec.Folded = 0
	if w.head.Covers > 0 {
		h.Retire(t, set)
		if !w.job.Anew {
			rec.Folded = w.head.Version
		}
	}
	h.Summary = rec.HeadOf(w.head)
	if err := t.PutJSON(records.Summary.Key(sinc, h.Summary.Version), rec); err != nil {
		return err
	}
	return t.PutJSON(records.Session.Key(p.Incarnation, w.job.Session), h)
}

// owns reports whether the task is unchanged since it was claimed. The commit fails if it changes later.
func (w *work) owns(t *records.Tx) (bool, error) {
	got, err := t.Get(w.key)
	return err == nil && string(got[0].Value) == string(w.record), err
}

// failed records that an attempt produced no summary, and returns when the next one is due. The session keeps its
// summary.
func (w *work) failed(ctx context.Context, failed *ProviderError) (time.Time, error) {
	if ctx.Err() != nil { // the server is stopping; the provider did not fail
		return w.release(context.WithoutCancel(ctx))
	}
	w.svc.db.Log.Warn("a summary could not be made; it is tried again later", "tenant", w.tenant,
		"project", w.job.Project, "session", w.job.Session, "code", failed.Code, "detail", failed.Detail)
	wait := w.svc.jittered(min(maxBackoff, backoff<<min(w.job.Attempts, 16)))
	if failed.Permanent {
		wait = w.svc.jittered(maxBackoff)
	}
	wait = max(wait, failed.RetryAfter)
	until := w.svc.db.Now().Add(wait)
	if failed.Code == "provider_rate_limited" && failed.RetryAfter > 0 { // The limit is the model's, for all tenants.
		w.svc.queue.hold(w.model, until)
	}
	next := w.job
	next.Attempts++
	if failed.Permanent || failed.Code == "bad_reply" { // The input may have been too much at once.
		next.Less = min(next.Less+1, maxLess)
	}
	next.Owner, next.Lease, next.NotYet = "", 0, until.UnixMilli()
	if next.Attempts >= maxAttempts {
		until = time.Time{}
	}
	return w.update(ctx, func(t *records.Tx) (time.Time, error) {
		if err := tenant.Use(t, tenant.UsageRecord{Summaries: tenant.SummaryUsage{Calls: 1, Failures: 1,
			TokensIn: int64(failed.TokensIn), TokensOut: int64(failed.TokensOut)}}); err != nil {
			return until, err
		}
		if mine, err := w.owns(t); err != nil || !mine {
			return t.Now, err
		}
		return until, t.PutJSON(w.key, next)
	})
}

// release restores the task to its state before it was claimed.
func (w *work) release(ctx context.Context) (time.Time, error) {
	return w.update(ctx, func(t *records.Tx) (time.Time, error) {
		next := w.job
		next.Owner, next.Lease = "", 0
		if mine, err := w.owns(t); err != nil || !mine {
			return t.Now, err
		}
		return t.Now, t.PutJSON(w.key, next)
	})
}

// drop deletes a task that has nothing left to do. If it has been replaced by another task, that one is due now.
func (w *work) drop(ctx context.Context) (due time.Time, err error) {
	err = w.svc.db.Commit(ctx, w.tenant, store.Batch{Expect: []store.Expect{{Key: w.key, Value: w.record}},
		Delete: [][]byte{w.key}})
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return w.svc.db.Now(), nil
	}
	return time.Time{}, err
}

// jittered returns a random duration between half of d and d, so that tasks that failed together are not retried
// together.
func (svc *Service) jittered(d time.Duration) time.Duration {
	var b [8]byte
	svc.db.Random(b[:])
	return d/2 + time.Duration(binary.LittleEndian.Uint64(b[:])%uint64(d/2+1))
}
