package engine

import (
	"context"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// importLife is how long an import may take before what it wrote is swept.
const importLife = time.Hour

// A commit of an import is sent once it holds this many records or bytes.
const (
	stagedWrites = 1000
	stagedBytes  = 1 << 20
)

// staging is a session whose messages are written but that nobody can see yet. The job sweeps them away again unless
// the commit that gives the session its head takes it back in time.
type staging struct {
	head    *head
	open    openCalls
	project incarnation
	job     []byte
	w       *tx // collects what the next commit writes
}

// expects are the preconditions of all that is staged: the tenant lives, and the job was not taken by the sweep, which
// may have removed what was written before.
func (s *staging) expects() []store.Expect {
	return []store.Expect{{Key: liveKey, Value: s.w.live[:]}, {Key: s.job, Value: s.project[:]}}
}

// stage begins a session where nobody sees it.
func (t *tx) stage(p *project, spec *SessionSpec, created time.Time) (*staging, error) {
	s := &staging{head: spec.head(t.e, t.now), project: p.Incarnation}
	if !created.IsZero() {
		s.head.Created = created.UTC()
	}
	s.open.Incarnation = s.head.Incarnation
	s.job = stagedKey(t.now.Add(importLife), s.head.Incarnation)
	s.w = &tx{ctx: t.ctx, e: t.e, tenant: t.tenant, live: t.live, now: t.now}
	job := store.Batch{Expect: s.expects()[:1], Put: []store.Pair{{Key: s.job, Value: p.Incarnation[:]}}}
	return s, t.e.commit(t.ctx, t.tenant, job)
}

// add writes the next turn, as many turns in one commit as it holds well, so that a long session does not wait for the
// disk once a turn.
func (s *staging) add(turn *parsedTurn) error {
	if _, err := turn.write(s.w, s.head, &s.open); err != nil {
		return err
	}
	if s.w.writes() < stagedWrites && s.w.bytes() < stagedBytes {
		return nil
	}
	return s.flush()
}

func (s *staging) flush() error {
	if s.w.writes() == 0 {
		return nil
	}
	s.w.batch.Expect = s.expects()
	err := s.w.e.commit(s.w.ctx, s.w.tenant, s.w.batch)
	s.w.clear()
	if lost := (*store.ConflictError)(nil); errors.As(err, &lost) {
		return errorf(Conflict, "import_interrupted", "the tenant was deleted meanwhile, or the session took longer than %s",
			importLife)
	}
	return err
}

// reveal collects the writes that make the staged session one that is seen, in place of the head before, if any.
func (t *tx) reveal(s *staging, p *project, id string, summary *FileSummary, before *head) (*head, error) {
	h := *s.head
	t.batch.Expect = append(t.batch.Expect, s.expects()[1])
	t.delete(s.job)
	if before != nil {
		h.OpenCalls = before.OpenCalls
		t.delete(summaryJobKey(before.Incarnation))
		t.put(sweepKey(sweepSession, before.Incarnation[:]), s.project[:])
		t.dropUnborn(s.project, id)
	}
	if err := t.putOpenCalls(p, id, &h, &s.open); err != nil {
		return nil, err
	}
	if err := summary.put(t, &h); err != nil {
		return nil, err
	}
	t.markUnindexed(p, &h, id)
	return &h, t.putJSON(headKey(s.project, id), &h)
}

// abandon has what was staged swept. Where this fails too, the job does it later, or whatever took the job away.
func (e *Engine) abandon(ctx context.Context, tenant string, s *staging) {
	sweep := store.Batch{Expect: s.expects(), Delete: [][]byte{s.job},
		Put: []store.Pair{{Key: sweepKey(sweepSession, s.head.Incarnation[:]), Value: s.project[:]}}}
	err := e.commit(ctx, tenant, sweep)
	if lost := (*store.ConflictError)(nil); err != nil && !errors.As(err, &lost) {
		e.log.Error("sweeping a failed import; it is tried again later", "error", err)
	}
}
