package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// keep stores a summary, what the session says of it, and what became of the job, in one commit. A result that came too
// late, because the job is somebody else's by now, changes nothing. calls is how many the provider was asked for it.
func (w *summaryWork) keep(ctx context.Context, sinc incarnation, f *fold, reply SummaryReply, calls int64,
) (time.Time, error) {
	rec := &summaryRecord{Text: reply.Text, FirstTurn: f.turns[0], LastTurn: f.turns[1], Covers: f.covers, Count: f.count,
		Model: reply.Model, Prompt: w.e.summariser.Prompt()}
	if w.from != nil {
		rec.FirstTurn, rec.Count = w.from.FirstTurn, rec.Count+w.from.Count
		rec.LastTurn = max(rec.LastTurn, w.from.LastTurn)
		if calls == 0 {
			rec.Prompt = w.from.Prompt
		}
	}
	unlock, err := w.e.lockSession(ctx, w.tenant, w.job.Project, w.job.Session)
	if err != nil {
		return time.Time{}, err
	}
	defer unlock()
	return update(ctx, w.e, Caller{Tenant: w.tenant}, Once{}, func(t *tx) (due time.Time, err error) {
		if err := t.use(usage{Summaries: SummaryUsage{Calls: calls, TokensIn: int64(reply.TokensIn),
			TokensOut: int64(reply.TokensOut)}}); err != nil {
			return due, err
		}
		if mine, err := t.owns(w); err != nil || !mine {
			return t.now, err
		}
		rec.Created = t.now
		next := w.job
		next.Owner, next.Lease, next.Attempts, next.NotYet, next.Less, next.Draft = "", 0, 0, 0, 0, nil
		more := rec.Covers < w.job.Through
		if more {
			due = t.now
			if w.job.Anew {
				next.Draft = rec
			}
			if err := t.putJSON(w.key, next); err != nil {
				return due, err
			}
		} else {
			t.delete(w.key)
		}
		if more && w.job.Anew {
			return due, nil
		}
		return due, t.setSummary(w, sinc, rec)
	})
}

// setSummary makes a summary the session's.
func (t *tx) setSummary(w *summaryWork, sinc incarnation, rec *summaryRecord) error {
	p, h, set, err := t.sessionForSummary(Caller{Tenant: w.tenant}, w.job.Project, w.job.Session, sinc)
	if err != nil {
		return err
	}
	if h.Incarnation != sinc || h.covered() != w.head {
		return errorf(Conflict, "summary_changed", "the session's summary is another by now")
	}
	if rec.Folded = 0; w.head.Covers > 0 {
		t.retireSummary(h, set)
		if !w.job.Anew {
			rec.Folded = w.head.Version
		}
	}
	h.Summary = &summaryHead{Version: w.head.Version + 1, Covers: rec.Covers, Count: rec.Count}
	if err := t.putJSON(kindSummary.Key(sinc, h.Summary.Version), rec); err != nil {
		return err
	}
	return t.putJSON(kindSession.Key(p.Incarnation, w.job.Session), h)
}

// owns tells whether the job is still the one that was claimed, and expects it to be.
func (t *tx) owns(w *summaryWork) (bool, error) {
	got, err := t.get(w.key)
	return err == nil && string(got[0].Value) == string(w.record), err
}

// failed notes an attempt that gave no summary. Summary and count stay as they were.
func (w *summaryWork) failed(ctx context.Context, failed *SummaryError) (time.Time, error) {
	if ctx.Err() != nil { // the server stops: the provider is not to blame
		return w.release(context.WithoutCancel(ctx))
	}
	w.e.log.Warn("a summary could not be made; it is tried again later", "tenant", w.tenant, "project", w.job.Project,
		"session", w.job.Session, "code", failed.Code, "detail", failed.Detail)
	wait := w.e.jittered(min(maxSummaryBackoff, summaryBackoff<<min(w.job.Attempts, 16)))
	if failed.Permanent {
		wait = w.e.jittered(maxSummaryBackoff)
	}
	wait = max(wait, failed.RetryAfter)
	until := w.e.now().Add(wait)
	if failed.Code == "provider_rate_limited" && failed.RetryAfter > 0 { // limits are a model's, whoever asks for it
		w.e.summaries.hold(w.model, until)
	}
	next := w.job
	next.Attempts++
	if failed.Permanent || failed.Code == "bad_reply" { // it may be too much at once
		next.Less = min(next.Less+1, maxSummaryLess)
	}
	next.Owner, next.Lease, next.NotYet = "", 0, until.UnixMilli()
	if next.Attempts >= maxSummaryAttempts {
		until = time.Time{}
	}
	return update(ctx, w.e, Caller{Tenant: w.tenant}, Once{}, func(t *tx) (time.Time, error) {
		if err := t.use(usage{Summaries: SummaryUsage{Calls: 1, Failures: 1, TokensIn: int64(failed.TokensIn),
			TokensOut: int64(failed.TokensOut)}}); err != nil {
			return until, err
		}
		if mine, err := t.owns(w); err != nil || !mine {
			return t.now, err
		}
		return until, t.putJSON(w.key, next)
	})
}

// release gives the job back as it was before it was claimed.
func (w *summaryWork) release(ctx context.Context) (time.Time, error) {
	return update(ctx, w.e, Caller{Tenant: w.tenant}, Once{}, func(t *tx) (time.Time, error) {
		next := w.job
		next.Owner, next.Lease = "", 0
		if mine, err := t.owns(w); err != nil || !mine {
			return t.now, err
		}
		return t.now, t.putJSON(w.key, next)
	})
}

// drop ends a job that has nothing to do any more. Where it is another one by now, that one is due.
func (w *summaryWork) drop(ctx context.Context) (due time.Time, err error) {
	err = w.e.commit(ctx, w.tenant, store.Batch{Expect: []store.Expect{{Key: w.key, Value: w.record}},
		Delete: [][]byte{w.key}})
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
		return w.e.now(), nil
	}
	return time.Time{}, err
}

// jittered spreads a wait over its second half, so that what failed together does not come back together.
func (e *Engine) jittered(d time.Duration) time.Duration {
	var b [8]byte
	e.random(b[:])
	return d/2 + time.Duration(binary.LittleEndian.Uint64(b[:])%uint64(d/2+1))
}
