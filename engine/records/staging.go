package records

import (
	"context"
	"errors"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// stagingLife is how long something may be staged before it is swept.
const stagingLife = time.Hour

// A commit of staged data is sent once it holds this many records or bytes.
const (
	stagedWrites = 1000
	StagedBytes  = 1 << 20
)

// Staging writes data that may be too large for one commit where nobody sees it: under an incarnation that no record
// names yet. A last commit that names the incarnation makes all of it visible at once. Reveal is part of that commit
// and writes what is still pending, so data that fits into one commit takes only one. If more are needed, the first
// also writes a job that sweeps everything after stagingLife, in case the process dies.
type Staging struct {
	W     *Tx // collects the writes of the next commit
	live  ident.Incarnation
	job   []byte     // the key of the job; nil: nothing is committed yet
	sweep store.Pair // the job that removes the staged data
}

// Stage starts a Staging. sweep is the job that removes all that will be written; its key ends with the incarnation.
// It fails with not_found if the caller's tenant is gone.
func (db *DB) Stage(ctx context.Context, c ident.Caller, sweep store.Pair) (*Staging, error) {
	t := db.Begin(ctx, c.Tenant)
	if err := t.expectLive(c); err != nil {
		return nil, err
	}
	s := &Staging{W: t, live: t.Live, sweep: sweep}
	s.clear()
	return s, nil
}

// clear starts the next commit.
func (s *Staging) clear() {
	s.W = &Tx{Ctx: s.W.Ctx, DB: s.W.DB, Tenant: s.W.Tenant, Live: s.live, Now: s.W.Now}
}

// Add calls do, which writes to w. Small pieces share a commit, so that they need not wait for the disk one by one.
// It fails with import_interrupted as Flush does.
func (s *Staging) Add(do func(w *Tx) error) error {
	if err := do(s.W); err != nil {
		return err
	}
	if FillsCommit(s.W.Writes(), s.W.Bytes()) {
		return s.Flush()
	}
	return nil
}

// FillsCommit reports whether so many writes and bytes should be committed before more is added.
func FillsCommit(writes, bytes int) bool { return writes >= stagedWrites || bytes >= StagedBytes }

// Read reads data, committed so far, without making it a precondition.
func (s *Staging) Read(q store.Query) (store.Result, error) {
	return s.W.DB.Store.Read(s.W.Ctx, s.W.Tenant, q)
}

// Flush commits the pending writes; the first commit also writes the job. It fails with import_interrupted if the
// tenant or the job is gone. If the job is gone, the data written before is being swept.
func (s *Staging) Flush() error {
	if s.W.Writes() == 0 {
		return nil
	}
	w := s.W
	w.Batch.Expect = []store.Expect{{Key: Live.Key(), Value: s.live[:]}}
	if s.job == nil {
		s.job = stagedKey(w.DB.Now().Add(stagingLife), s.sweep.Key)
		w.Put(s.job, s.sweep.Value)
	} else {
		w.Batch.Expect = append(w.Batch.Expect, s.expectJob())
	}
	err := w.DB.Commit(w.Ctx, w.Tenant, w.Batch)
	s.clear()
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return fault.Errorf(fault.Conflict, "import_interrupted",
			"the tenant was deleted meanwhile, or one thing took longer than %s", stagingLife)
	}
	return err
}

func (s *Staging) expectJob() store.Expect { return store.Expect{Key: s.job, Value: s.sweep.Value} }

// Reveal adds the pending writes to t, the commit that names the incarnation, and removes the job. It may be called
// again with another t if the commit is retried.
func (s *Staging) Reveal(t *Tx) {
	for _, p := range s.W.Batch.Put {
		t.Put(p.Key, p.Value)
	}
	if s.job != nil {
		t.Batch.Expect = append(t.Batch.Expect, s.expectJob())
		t.Delete(s.job)
	}
}

// Abandon starts to sweep the staged data now. If that fails, the job does it later.
func (s *Staging) Abandon(ctx context.Context) {
	s.clear()
	if s.job == nil {
		return
	}
	db := s.W.DB
	err := db.Commit(ctx, s.W.Tenant, store.Batch{Expect: []store.Expect{{Key: Live.Key(), Value: s.live[:]}, s.expectJob()},
		Delete: [][]byte{s.job}, Put: []store.Pair{s.sweep}})
	if err = LostRace(err); err != nil {
		db.Log.Error("sweeping a failed import; it is tried again later", "error", err)
	}
}

// SweepStaged replaces the jobs of data that was staged for too long by the jobs that sweep it.
func (db *DB) SweepStaged(ctx context.Context, tenant string, due []store.Item) error {
	var b store.Batch
	for _, it := range due {
		b.Delete = append(b.Delete, it.Key)
		b.Put = append(b.Put, store.Pair{Key: stagedSweep(it.Key), Value: it.Value})
	}
	return db.Commit(ctx, tenant, b)
}

// DueStaged covers the jobs of data that was staged for too long; limit bounds their number.
func DueStaged(now time.Time, limit int) store.Range {
	return store.Range{From: []byte(stagedPrefix), To: stagedKey(now, nil), Limit: limit}
}

// stagedPrefix begins the keys of StagedSessionJob and StagedBoardJob. stagedAt is their next part.
const stagedPrefix = JobPrefix + "i"

var stagedAt = earliestFirst("time")

// stagedKey returns the key of the job for staged data: its deadline, and the key of the job that sweeps it.
// StagedSessionJob and StagedBoardJob describe such keys.
func stagedKey(until time.Time, sweep []byte) []byte {
	return append(stagedAt.append([]byte(stagedPrefix), until), sweep...)
}

// stagedSweep returns the key of the job that sweeps the staged data.
func stagedSweep(key []byte) []byte { return key[len(stagedKey(time.Time{}, nil)):] }
