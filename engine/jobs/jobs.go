// Package jobs does background work: removing what was deleted, doing what became due, and once a day removing what is
// too old.
//
// Work is described by records in the store, so a crash loses none of it: an interrupted unit is found and done again.
// Packages list their Units and Dailies; this package visits the tenants and runs the units. A process with nothing to
// do reads nothing: it remembers the tenants that it queued work for itself, and an occasional scan of all tenants
// finds the rest.
package jobs

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
)

// Service does background work. The engine sets Units, Dailies and SystemDailies before the first Step.
type Service struct {
	Units         []Unit  // of every tenant, and of the system space
	Dailies       []Daily // of every tenant
	SystemDailies []Daily // of the system space

	db           *records.DB
	livingTenant func(record []byte) (id string, err error)
	background   background
	wake         chan struct{} // a job was queued
}

// New returns a Service. livingTenant returns the id in a tenant's record; empty if the tenant is being deleted.
func New(db *records.DB, livingTenant func(record []byte) (id string, err error)) *Service {
	svc := &Service{db: db, wake: make(chan struct{}, 1), livingTenant: livingTenant}
	db.Committed = svc.queueWork
	return svc
}

// background is what is remembered between steps. All of it may be lost: a scan of all tenants finds the work again.
type background struct {
	mu     sync.Mutex
	queue  []string        // distinct tenants that this process queued work for
	queued map[string]bool // the elements of queue
	turn   atomic.Uint32   // the unit that comes first in the next step of a tenant
	looked []byte          // the key of the tenant that the scan has reached; nil if the next scan starts
}

// add queues a tenant.
func (b *background) add(tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queued[tenant] {
		return
	}
	if b.queued == nil {
		b.queued = map[string]bool{}
	}
	b.queued[tenant] = true
	b.queue = append(b.queue, tenant)
}

// next removes the first tenant from the queue.
func (b *background) next() (tenant string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return "", false
	}
	tenant, b.queue = b.queue[0], b.queue[1:]
	delete(b.queued, tenant)
	return tenant, true
}

func (b *background) lookedTo() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.looked
}

func (b *background) setLooked(key []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looked = key
}

// queueWork queues a tenant if a batch written to it contains a job. Summaries have their own queue.
func (svc *Service) queueWork(tenant string, b store.Batch) {
	if slices.ContainsFunc(b.Put, func(p store.Pair) bool {
		return bytes.HasPrefix(p.Key, []byte(records.JobPrefix)) && !records.SummaryJob.Is(p.Key)
	}) {
		svc.Poke(tenant)
	}
}

// Poke queues a tenant, and wakes Run.
func (svc *Service) Poke(tenant string) {
	svc.background.add(tenant)
	select {
	case svc.wake <- struct{}{}:
	default:
	}
}

// Step does one unit of background work, if there is any, and reports whether there may be more. Work queued by this
// process comes first. Then a scan of all tenants finds what became due, and what other processes left.
func (svc *Service) Step(ctx context.Context) (more bool, err error) {
	if more, err := svc.stepQueued(ctx); more || err != nil {
		return more, err
	}
	return svc.stepLook(ctx)
}

// stepQueued does a unit for one queued tenant. If no tenant is queued, it reads nothing, however many tenants there
// are. A tenant leaves the queue when it has no unit to do; the next scan finds it again.
func (svc *Service) stepQueued(ctx context.Context) (more bool, err error) {
	tenant, ok := svc.background.next()
	if !ok {
		return false, nil
	}
	done, err := svc.stepTenant(ctx, tenant)
	if done {
		svc.background.add(tenant)
	}
	return true, err
}

// stepLook continues the scan of all tenants until it has done one unit or has visited all tenants.
func (svc *Service) stepLook(ctx context.Context) (more bool, err error) {
	var failed error // an error of one tenant, or of the clock, must not stop the others
	from := svc.background.lookedTo()
	if from == nil {
		failed = svc.db.SaveClock(ctx)
		done, err := svc.stepTenant(ctx, records.SystemTenant)
		failed = errors.Join(failed, err)
		if done {
			return true, failed
		}
		from = records.Tenant.All().From
	}
	rng := store.Range{From: from, To: records.Tenant.All().To}
	for it, err := range svc.db.Scan(ctx, records.SystemTenant, rng) {
		if err != nil {
			return false, errors.Join(failed, err)
		}
		done, err := svc.stepRecord(ctx, it)
		failed = errors.Join(failed, err)
		if done {
			svc.background.setLooked(it.Key)
			return true, failed
		}
	}
	svc.background.setLooked(nil)
	return false, failed
}

// stepRecord does a unit for the tenant with the given record.
func (svc *Service) stepRecord(ctx context.Context, it store.Item) (done bool, err error) {
	if it.Damaged {
		return false, records.ErrDamaged
	}
	tenant, err := svc.livingTenant(it.Value)
	if err != nil || tenant == "" {
		return false, err
	}
	return svc.stepTenant(ctx, tenant)
}

// Unit is one kind of background work. Due returns the range of a tenant's records that describe such work; the other
// function does a piece of it. Packages have a method Units that lists theirs.
type Unit struct {
	Due func(tenant string, now time.Time) store.Range
	Do  func(ctx context.Context, tenant string, found []store.Item) (done bool, err error)
}

// FirstJob returns a unit that does the first job in a range.
func FirstJob(jobs store.Range, do func(ctx context.Context, tenant string, job store.Item) error) Unit {
	return Unit{firstOf(jobs), func(ctx context.Context, tenant string, found []store.Item) (bool, error) {
		return true, do(ctx, tenant, found[0])
	}}
}

// AnyJob returns a unit whose step finds its jobs itself. The step runs if the range contains any job.
func AnyJob(jobs store.Range, step func(ctx context.Context, tenant string) (done bool, err error)) Unit {
	return Unit{firstOf(jobs), func(ctx context.Context, tenant string, _ []store.Item) (bool, error) {
		return step(ctx, tenant)
	}}
}

func firstOf(jobs store.Range) func(string, time.Time) store.Range {
	jobs.Limit = 1
	return func(string, time.Time) store.Range { return jobs }
}

// stepTenant does one piece of one tenant's work: the first that does not fail. It returns the errors of those that
// failed.
func (svc *Service) stepTenant(ctx context.Context, tenant string) (done bool, err error) {
	q, now := store.Query{Keys: [][]byte{records.DailyJob.Key()}}, svc.db.Settled()
	for _, u := range svc.Units {
		q.Ranges = append(q.Ranges, u.Due(tenant, now))
	}
	r, err := svc.db.Store.Read(ctx, tenant, q)
	if err != nil {
		return false, err
	}
	var failed error // an error of one unit must not stop the others
	// Each step begins with another unit, so that none has to wait for one with a lot of work.
	first := int(svc.background.turn.Add(1))
	for n := range svc.Units {
		i := (first + n) % len(svc.Units)
		if len(r.Ranges[i]) == 0 {
			continue
		}
		done, err := svc.Units[i].Do(ctx, tenant, r.Ranges[i])
		if err == nil && done || ctx.Err() != nil {
			return done && err == nil, errors.Join(failed, err)
		}
		failed = errors.Join(failed, err)
	}
	done, err = svc.stepRetention(ctx, tenant, r.Keys[0])
	return done && err == nil, errors.Join(failed, err)
}

// PrefixJobs are the jobs whose keys end with a prefix to sweep: BoardJob and InboxJob.
var PrefixJobs = records.PrefixRange([]byte(records.JobPrefix + "c"))

// SweepPrefixed removes some of the records that begin with the prefix in a job's key, and removes the job when none
// are left.
func (svc *Service) SweepPrefixed(ctx context.Context, tenant string, job store.Item) error {
	prefix := job.Key[len(PrefixJobs.From):]
	if len(prefix) < len(records.BoardRecords.Under(ident.Incarnation{}).From) || prefix[0] != 'c' {
		return records.ErrDamaged
	}
	if more, err := svc.db.DeleteRange(ctx, tenant, records.PrefixRange(prefix)); more || err != nil {
		return err
	}
	return svc.db.Commit(ctx, tenant, store.Batch{Delete: [][]byte{job.Key}})
}

// Run does background work until ctx ends: work left by an earlier process at once, queued work when it is woken, and a
// scan for due work at every tick.
func (svc *Service) Run(ctx context.Context, tick <-chan struct{}) {
	step := svc.Step
	for {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = step(ctx); err != nil && !errors.Is(err, context.Canceled) {
				svc.db.Log.Error("background work failed and will be retried", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-svc.wake:
			step = svc.stepQueued
		case <-tick:
			step = svc.Step
		}
	}
}
