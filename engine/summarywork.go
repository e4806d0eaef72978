package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// summaryInput bounds the messages of one call, summaryMessage each of them, summaryOutput the reply: in tokens of
	// o200k_base.
	summaryInput   = 12_000
	summaryMessage = 2_000
	summaryOutput  = 1_024
	// summaryTimeout is the longest that one call may take, summaryLease how long its job is nobody else's.
	summaryTimeout = 75 * time.Second
	summaryLease   = 2 * time.Minute
	// Attempts are repeated after summaryBackoff, doubled each time, up to maxSummaryBackoff.
	summaryBackoff    = time.Second
	maxSummaryBackoff = 15 * time.Minute
	// maxSummaryAttempts in a row are made by themselves; then a window or a refresh must ask again. maxSummaryLess is
	// how often what is too much at once is halved.
	maxSummaryAttempts = 10
	maxSummaryLess     = 4
)

// summaryWork is one attempt on a job: the job as claimed, and what the summary goes on from.
type summaryWork struct {
	e      *Engine
	tenant string
	key    []byte
	job    summaryJob
	record []byte // the job's, as it stands in the store
	head   summaryHead
	from   *summaryRecord // nil: the first message
	model  string
}

// workOnSummary makes one attempt and says when the next one is due; the zero time where the job is done.
func (e *Engine) workOnSummary(ctx context.Context, entry *summaryEntry) (due time.Time, err error) {
	w := &summaryWork{e: e, tenant: entry.tenant, key: summaryJobKey(entry.session)}
	if due, err = w.load(ctx); err != nil || w.record == nil || due.After(e.now()) {
		return due, err
	}
	ok, err := w.begin(ctx, entry.session)
	if err != nil {
		return due, err
	}
	if !ok {
		return w.drop(ctx)
	}
	if until := e.summaries.held(w.model, e.now()); !until.IsZero() {
		return until, nil
	}
	if due, ok, err = w.claim(ctx); err != nil || !ok {
		return due, err
	}
	f, err := w.gather(ctx, entry.session)
	if err != nil {
		return due, err
	}
	if len(f.messages) > 0 {
		due, err = w.attempt(ctx, entry.session, f)
	} else if w.from != nil { // delegations' messages alone: the summary as it is covers them too
		due, err = w.keep(ctx, entry.session, f, SummaryReply{Text: w.from.Text, Model: w.from.Model}, 0)
	} else {
		return w.drop(ctx)
	}
	if known := (*Error)(nil); errors.As(err, &known) && known.Kind == NotFound { // deleted meanwhile
		return w.drop(ctx)
	}
	return due, err
}

// attempt makes one call of the provider and keeps what came of it.
func (w *summaryWork) attempt(ctx context.Context, sinc incarnation, f *fold) (due time.Time, err error) {
	req := SummaryRequest{Model: w.model, Messages: f.messages, MaxTokens: summaryOutput}
	if w.from != nil {
		req.Previous = w.from.Text
	}
	call, cancel := context.WithTimeout(ctx, summaryTimeout)
	reply, err := w.e.summariser.Summarise(call, req)
	cancel()
	if reply.Text = strings.TrimSpace(reply.Text); err == nil {
		err = checkReply(reply)
	}
	if failed := (*SummaryError)(nil); errors.As(err, &failed) {
		return w.failed(ctx, failed)
	}
	if err != nil {
		return due, err
	}
	return w.keep(ctx, sinc, f, reply, 1)
}

// checkReply refuses what is no summary: nothing of it is stored.
func checkReply(r SummaryReply) error {
	refused := &SummaryError{TokensIn: r.TokensIn, TokensOut: r.TokensOut}
	switch {
	case r.Text == "":
		refused.Code, refused.Detail = "empty_reply", "the provider's summary is empty"
	case len(r.Text) > maxSummaryText:
		refused.Code = "bad_reply"
		refused.Detail = fmt.Sprintf("the provider's summary has %d bytes, at most %d are taken", len(r.Text), maxSummaryText)
	default:
		return nil
	}
	return refused
}

// load reads the job and says when it is due; there is no record where there is no job any more.
func (w *summaryWork) load(ctx context.Context) (due time.Time, err error) {
	r, err := w.e.store.Read(ctx, w.tenant, store.Query{Keys: [][]byte{w.key}})
	if err != nil || r.Keys[0].Value == nil && !r.Keys[0].Damaged {
		return time.Time{}, err
	}
	found := r.Keys[0]
	if json.Unmarshal(found.Value, &w.job) != nil {
		w.e.log.Error("a summary's job is damaged and given up; the next window asks again", "tenant", w.tenant)
		return time.Time{}, w.e.commit(ctx, w.tenant, store.Batch{Delete: [][]byte{w.key}})
	}
	w.record = found.Value
	return w.e.summaryDue(&w.job), nil
}

// claim takes the job for as long as one attempt may last, or tells that somebody was faster.
func (w *summaryWork) claim(ctx context.Context) (due time.Time, ok bool, err error) {
	now := w.e.now()
	w.job.Owner, w.job.Lease = w.e.newID("", 10), now.Add(summaryLease).UnixMilli()
	claimed, err := json.Marshal(w.job)
	if err != nil {
		return now, false, err
	}
	err = w.e.commit(ctx, w.tenant, store.Batch{Expect: []store.Expect{{Key: w.key, Value: w.record}},
		Put: []store.Pair{{Key: w.key, Value: claimed}}})
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
		return now, false, nil
	}
	w.record = claimed
	return timeOf(w.job.Lease), err == nil, err
}

// begin reads what the summary goes on from and tells whether there is anything to do.
func (w *summaryWork) begin(ctx context.Context, sinc incarnation) (bool, error) {
	p, h, _, err := w.e.readHead(ctx, Caller{Tenant: w.tenant}, w.job.Project, w.job.Session)
	if known := (*Error)(nil); errors.As(err, &known) && known.Kind == NotFound {
		return false, nil
	}
	if err != nil || h == nil || h.Incarnation != sinc {
		return false, err
	}
	set, err := w.e.setupOf(p)
	if err != nil {
		return false, err
	}
	w.model, w.head = set.settings.SummaryModel, h.covered()
	w.job.Through = min(w.job.Through, h.Messages)
	if w.job.Anew {
		w.from = w.job.Draft
		return true, nil
	}
	if w.head.Covers == 0 {
		return true, nil
	}
	s, err := w.e.readSummary(ctx, w.tenant, sinc, w.head.Version)
	if err != nil {
		return false, err
	}
	if s == nil { // damaged: it is made again, from the messages
		w.job.Anew, w.job.Through = true, max(w.job.Through, w.head.Covers)
		return true, nil
	}
	w.from = s.summaryRecord
	return w.job.Through > w.head.Covers, nil
}

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
	if err := t.putJSON(summaryKey(sinc, h.Summary.Version), rec); err != nil {
		return err
	}
	return t.putJSON(headKey(p.Incarnation, w.job.Session), h)
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
