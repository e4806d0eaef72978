package summary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/session/transcript"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// input limits all messages of one call, message each of them, and output the reply, in tokens of o200k_base.
	input   = 12_000
	message = 2_000
	output  = 1_024
	// timeout limits one call; lease is how long other processes may not take its task.
	timeout = 75 * time.Second
	lease   = 2 * time.Minute
	// A failed attempt is repeated after backoff, which doubles each time up to maxBackoff.
	backoff    = time.Second
	maxBackoff = 15 * time.Minute
	// After maxAttempts failures in a row, the task waits until a window or a refresh asks again. maxLess is the number
	// of times that the input is halved because it was too long for the model.
	maxAttempts = 10
	maxLess     = 4
)

// work is an attempt on a task.
type work struct {
	svc    *Service
	tenant string
	key    []byte // of the task
	job    task
	record []byte                 // the stored task, or nil
	head   session.SummaryHead    // the session's summary when the attempt began
	gone   transcript.Runs        // superseded messages of the session at that time
	edits  uint32                 // how often its messages had been changed
	from   *session.SummaryRecord // the summary to extend; nil to begin with the first message
	model  string
}

// workOn makes one attempt and returns when the next one is due, or the zero time if the task is done.
func (svc *Service) workOn(ctx context.Context, entry *entry) (due time.Time, err error) {
	w := &work{svc: svc, tenant: entry.tenant, key: records.SummaryJob.Key(entry.session)}
	if due, err = w.load(ctx); err != nil || w.record == nil || due.After(svc.db.Now()) {
		return due, err
	}
	ok, err := w.begin(ctx, entry.session)
	if err != nil {
		return due, err
	}
	if !ok {
		return w.drop(ctx)
	}
	if until := svc.queue.held(w.model, svc.db.Now()); !until.IsZero() {
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
	} else if w.from != nil { // Only messages of delegations are left, so the summary stays the same.
		due, err = w.keep(ctx, entry.session, f, Reply{Text: w.from.Text, Model: w.from.Model}, 0)
	} else {
		return w.drop(ctx)
	}
	if fault.IsNotFound(err) { // the session was deleted in the meantime
		return w.drop(ctx)
	}
	return due, err
}

// attempt makes one call of the provider and stores the result.
func (w *work) attempt(ctx context.Context, sinc ident.Incarnation, f *fold) (due time.Time, err error) {
	req := Request{Model: w.model, Messages: f.messages, MaxTokens: output}
	if w.from != nil {
		req.Previous = w.from.Text
	}
	call, cancel := context.WithTimeout(ctx, timeout)
	reply, err := w.svc.summariser.Summarise(call, req)
	cancel()
	reply.Text = strings.TrimSpace(reply.Text)
	if err == nil {
		err = checkReply(reply)
	}
	if failed, ok := errors.AsType[*ProviderError](err); ok {
		return w.failed(ctx, failed)
	}
	if err != nil {
		return due, err
	}
	return w.keep(ctx, sinc, f, reply, 1)
}

// checkReply returns a *ProviderError if a reply is not a summary.
func checkReply(r Reply) error {
	refused := &ProviderError{TokensIn: r.TokensIn, TokensOut: r.TokensOut}
	switch {
	case r.Text == "":
		refused.Code, refused.Detail = "empty_reply", "the provider's summary is empty"
	case len(r.Text) > session.MaxSummaryText:
		refused.Code = "bad_reply"
		refused.Detail = fmt.Sprintf("the provider's summary has %d bytes, at most %d are taken", len(r.Text),
			session.MaxSummaryText)
	default:
		return nil
	}
	return refused
}

// load reads the task and returns when it is due. It leaves record nil if the task no longer exists.
func (w *work) load(ctx context.Context) (due time.Time, err error) {
	found, err := w.svc.db.ReadItem(ctx, w.tenant, w.key)
	if err != nil || found.Value == nil && !found.Damaged {
		return time.Time{}, err
	}
	if json.Unmarshal(found.Value, &w.job) != nil {
		w.svc.db.Log.Error("a summary's job is damaged and given up; the next window asks again", "tenant", w.tenant)
		return time.Time{}, w.svc.db.Commit(ctx, w.tenant, store.Batch{Delete: [][]byte{w.key}})
	}
	w.record = found.Value
	return w.svc.due(&w.job), nil
}

// claim takes a lease on the task for the duration of one attempt. ok is false if another process was faster.
func (w *work) claim(ctx context.Context) (due time.Time, ok bool, err error) {
	now := w.svc.db.Now()
	w.job.Owner, w.job.Lease = w.svc.db.NewID("", 10), now.Add(lease).UnixMilli()
	claimed, err := json.Marshal(w.job)
	if err != nil {
		return now, false, err
	}
	err = w.svc.db.Commit(ctx, w.tenant, store.Batch{Expect: []store.Expect{{Key: w.key, Value: w.record}},
		Put: []store.Pair{{Key: w.key, Value: claimed}}})
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return now, false, nil
	}
	w.record = claimed
	return records.TimeOf(w.job.Lease), err == nil, err
}

// begin reads the summary to extend and reports whether there is anything to do.
func (w *work) begin(ctx context.Context, sinc ident.Incarnation) (bool, error) {
	p, h, _, err := w.svc.sessions.ReadHead(ctx, ident.Caller{Tenant: w.tenant}, w.job.Project, w.job.Session)
	if fault.IsNotFound(err) {
		return false, nil
	}
	if err != nil || h == nil || h.Incarnation != sinc || h.Closed {
		return false, err
	}
	set, err := w.svc.projects.SetupOf(p)
	if err != nil {
		return false, err
	}
	w.model, w.head = set.Settings.SummaryModel, h.Covered()
	w.gone, w.edits = h.Superseded, h.Edits
	if w.job.Through = min(w.job.Through, h.Messages); w.gone.Message(w.job.Through) {
		// A rewind superseded the messages that the task was to cover. A window will request another summary when it
		// needs one. A refresh then covers all messages before the newest question.
		if !w.job.Anew {
			return false, nil
		}
		w.job.Through = w.gone.LastMessage(max(h.Asked, 1) - 1)
	}
	if w.job.Anew {
		if w.from = w.job.Draft; w.from != nil && !session.Within(w.from.Covers, h.Extent()) {
			w.from = nil // A rewind superseded messages that the draft covers.
		}
		return w.job.Through > 0, nil
	}
	if w.head.Covers == 0 {
		return true, nil
	}
	s, err := w.svc.sessions.ReadSummary(ctx, w.tenant, sinc, w.head.Version)
	if err != nil {
		return false, err
	}
	if s == nil { // The summary is damaged, so a new one is made from the messages.
		w.job.Anew, w.job.Through = true, max(w.job.Through, w.head.Covers)
		return true, nil
	}
	w.from = s.SummaryRecord
	return w.job.Through > w.head.Covers, nil
}
