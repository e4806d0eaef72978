package summary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/access"
	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/session"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

const (
	// input bounds the messages of one call, summaryMessage each of them, summaryOutput the reply: in tokens of
	// o200k_base.
	input   = 12_000
	message = 2_000
	output  = 1_024
	// timeout is the longest that one call may take, summaryLease how long its job is nobody else's.
	timeout = 75 * time.Second
	lease   = 2 * time.Minute
	// Attempts are repeated after summaryBackoff, doubled each time, up to maxSummaryBackoff.
	backoff           = time.Second
	maxSummaryBackoff = 15 * time.Minute
	// maxSummaryAttempts in a row are made by themselves; then a window or a refresh must ask again. maxSummaryLess is
	// how often what is too much at once is halved.
	maxSummaryAttempts = 10
	maxSummaryLess     = 4
)

// work is one attempt on a job: the job as claimed, and what the summary goes on from.
type work struct {
	e      *Service
	tenant string
	key    []byte
	job    summaryJob
	record []byte // the job's, as it stands in the store
	head   session.SummaryHead
	from   *session.SummaryRecord // nil: the first message
	model  string
}

// workOn makes one attempt and says when the next one is due; the zero time where the job is done.
func (svc *Service) workOn(ctx context.Context, entry *entry) (due time.Time, err error) {
	w := &work{e: svc, tenant: entry.tenant, key: records.SummaryJob.Key(entry.session)}
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
	} else if w.from != nil { // delegations' messages alone: the summary as it is covers them too
		due, err = w.keep(ctx, entry.session, f, Reply{Text: w.from.Text, Model: w.from.Model}, 0)
	} else {
		return w.drop(ctx)
	}
	if known := (*fault.Error)(nil); errors.As(err, &known) && known.Kind == fault.NotFound { // deleted meanwhile
		return w.drop(ctx)
	}
	return due, err
}

// attempt makes one call of the provider and keeps what came of it.
func (w *work) attempt(ctx context.Context, sinc ident.Incarnation, f *fold) (due time.Time, err error) {
	req := Request{Model: w.model, Messages: f.messages, MaxTokens: output}
	if w.from != nil {
		req.Previous = w.from.Text
	}
	call, cancel := context.WithTimeout(ctx, timeout)
	reply, err := w.e.summariser.Summarise(call, req)
	cancel()
	if reply.Text = strings.TrimSpace(reply.Text); err == nil {
		err = checkReply(reply)
	}
	if failed := (*ProviderError)(nil); errors.As(err, &failed) {
		return w.failed(ctx, failed)
	}
	if err != nil {
		return due, err
	}
	return w.keep(ctx, sinc, f, reply, 1)
}

// checkReply refuses what is no summary: nothing of it is stored.
func checkReply(r Reply) error {
	refused := &ProviderError{TokensIn: r.TokensIn, TokensOut: r.TokensOut}
	switch {
	case r.Text == "":
		refused.Code, refused.Detail = "empty_reply", "the provider's summary is empty"
	case len(r.Text) > session.MaxSummaryText:
		refused.Code = "bad_reply"
		refused.Detail = fmt.Sprintf("the provider's summary has %d bytes, at most %d are taken", len(r.Text), session.MaxSummaryText)
	default:
		return nil
	}
	return refused
}

// load reads the job and says when it is due; there is no record where there is no job any more.
func (w *work) load(ctx context.Context) (due time.Time, err error) {
	r, err := w.e.db.Store.Read(ctx, w.tenant, store.Query{Keys: [][]byte{w.key}})
	if err != nil || r.Keys[0].Value == nil && !r.Keys[0].Damaged {
		return time.Time{}, err
	}
	found := r.Keys[0]
	if json.Unmarshal(found.Value, &w.job) != nil {
		w.e.db.Log.Error("a summary's job is damaged and given up; the next window asks again", "tenant", w.tenant)
		return time.Time{}, w.e.db.Commit(ctx, w.tenant, store.Batch{Delete: [][]byte{w.key}})
	}
	w.record = found.Value
	return w.e.due(&w.job), nil
}

// claim takes the job for as long as one attempt may last, or tells that somebody was faster.
func (w *work) claim(ctx context.Context) (due time.Time, ok bool, err error) {
	now := w.e.db.Now()
	w.job.Owner, w.job.Lease = w.e.db.NewID("", 10), now.Add(lease).UnixMilli()
	claimed, err := json.Marshal(w.job)
	if err != nil {
		return now, false, err
	}
	err = w.e.db.Commit(ctx, w.tenant, store.Batch{Expect: []store.Expect{{Key: w.key, Value: w.record}},
		Put: []store.Pair{{Key: w.key, Value: claimed}}})
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) {
		return now, false, nil
	}
	w.record = claimed
	return records.TimeOf(w.job.Lease), err == nil, err
}

// begin reads what the summary goes on from and tells whether there is anything to do.
func (w *work) begin(ctx context.Context, sinc ident.Incarnation) (bool, error) {
	p, h, _, err := w.e.sessions.ReadHead(ctx, access.Caller{Tenant: w.tenant}, w.job.Project, w.job.Session)
	if known := (*fault.Error)(nil); errors.As(err, &known) && known.Kind == fault.NotFound {
		return false, nil
	}
	if err != nil || h == nil || h.Incarnation != sinc {
		return false, err
	}
	set, err := w.e.projects.SetupOf(p)
	if err != nil {
		return false, err
	}
	w.model, w.head = set.Settings.SummaryModel, h.Covered()
	w.job.Through = min(w.job.Through, h.Messages)
	if w.job.Anew {
		w.from = w.job.Draft
		return true, nil
	}
	if w.head.Covers == 0 {
		return true, nil
	}
	s, err := w.e.sessions.ReadSummary(ctx, w.tenant, sinc, w.head.Version)
	if err != nil {
		return false, err
	}
	if s == nil { // damaged: it is made again, from the messages
		w.job.Anew, w.job.Through = true, max(w.job.Through, w.head.Covers)
		return true, nil
	}
	w.from = s.SummaryRecord
	return w.job.Through > w.head.Covers, nil
}
