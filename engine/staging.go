package engine

import (
	"context"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// stagingLife is how long something may be staged before it is swept.
const stagingLife = time.Hour

// A commit of what is staged is sent once it holds this many records or bytes.
const (
	stagedWrites = 1000
	stagedBytes  = 1 << 20
)

// staging writes something that is too large for one commit where nobody sees it: under an incarnation that no record
// names yet. One last commit, of reveal, makes it seen as a whole. Until then a job stands ready to have it swept.
type staging struct {
	w     *tx // It collects what the next commit writes.
	live  incarnation
	job   []byte
	sweep store.Pair // the job that removes what was written
}

// stage begins to write. Sweep is the job that removes all that will be written; its key ends with the incarnation.
func (e *Engine) stage(ctx context.Context, c Caller, sweep store.Pair) (*staging, error) {
	t := &tx{ctx: ctx, e: e, tenant: c.Tenant, now: e.now()}
	if err := t.expectLive(c); err != nil {
		return nil, err
	}
	s := &staging{w: t, live: t.live, job: stagedKey(t.now.Add(stagingLife), sweep.Key), sweep: sweep}
	t.put(s.job, sweep.Value)
	err := e.commit(ctx, t.tenant, t.batch)
	s.clear()
	return s, err
}

// expects are the preconditions of all that is staged: the tenant lives, and nothing took the job away, which would
// mean that what was written before is being swept.
func (s *staging) expects() []store.Expect {
	return []store.Expect{{Key: kindLive.Key(), Value: s.live[:]}, {Key: s.job, Value: s.sweep.Value}}
}

func (s *staging) clear() {
	s.w = &tx{ctx: s.w.ctx, e: s.w.e, tenant: s.w.tenant, live: s.live, now: s.w.now}
}

// add lets do write more. Small pieces share a commit, so that they need not wait for the disk one by one.
func (s *staging) add(do func(w *tx) error) error {
	if err := do(s.w); err != nil {
		return err
	}
	if s.w.writes() < stagedWrites && s.w.bytes() < stagedBytes {
		return nil
	}
	return s.flush()
}

// read reads what was written, or anything else, without expecting it unchanged.
func (s *staging) read(q store.Query) (store.Result, error) {
	return s.w.e.store.Read(s.w.ctx, s.w.tenant, q)
}

// flush commits what is still waiting. It answers import_interrupted where the tenant or the job is gone.
func (s *staging) flush() error {
	if s.w.writes() == 0 {
		return nil
	}
	s.w.batch.Expect = s.expects()
	err := s.w.e.commit(s.w.ctx, s.w.tenant, s.w.batch)
	s.clear()
	if lost := (*store.ConflictError)(nil); errors.As(err, &lost) {
		return errorf(Conflict, "import_interrupted",
			"the tenant was deleted meanwhile, or one thing took longer than %s", stagingLife)
	}
	return err
}

// reveal adds to a commit that names the incarnation what keeps the sweep away.
func (s *staging) reveal(t *tx) {
	t.batch.Expect = append(t.batch.Expect, s.expects()[1])
	t.delete(s.job)
}

// abandon has what was written swept now. Where that fails, the job does it later.
func (s *staging) abandon(ctx context.Context) {
	e := s.w.e
	err := e.commit(ctx, s.w.tenant, store.Batch{Expect: s.expects(), Delete: [][]byte{s.job},
		Put: []store.Pair{s.sweep}})
	if err = lostRace(err); err != nil {
		e.log.Error("sweeping a failed import; it is tried again later", "error", err)
	}
}

// sweepStaged puts, for what was staged too long ago, the jobs that sweep it.
func (e *Engine) sweepStaged(ctx context.Context, tenant string, due []store.Item) error {
	var b store.Batch
	for _, it := range due {
		b.Delete = append(b.Delete, it.Key)
		b.Put = append(b.Put, store.Pair{Key: stagedSweep(it.Key), Value: it.Value})
	}
	return e.commit(ctx, tenant, b)
}

// stagedAt is the first part of the keys of jobs of what is staged: until when it may stay so.
var stagedAt = earliestFirst("time")

// stagedKey is the job of what is staged, kindStagedSessionJob for one: its key ends with the key of the job that sweeps
// it.
func stagedKey(until time.Time, sweep []byte) []byte {
	return append(stagedAt.append([]byte(jobPrefix+"i"), until), sweep...)
}

func stagedSweep(key []byte) []byte { return key[len(stagedKey(time.Time{}, nil)):] }

// dueStaged covers the jobs of what ran out by now.
func dueStaged(now time.Time, limit int) store.Range {
	return store.Range{From: []byte(jobPrefix + "i"), To: stagedKey(now, nil), Limit: limit}
}
