// Package jobs does background work: sweeps of what was deleted, what came due by time, and once a day what goes by
// age.
//
// Work is records in the store, so that a crash loses none of it: a unit that was interrupted is found and done again.
// Rooms list their Units and Dailies; this package goes through the tenants and gives each unit its turn. The main idea
// is that a process with nothing to do reads nothing: it knows the tenants that it queued work for itself, and a look
// at all tenants, now and then, finds the rest.
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

// Service does background work. Whoever makes the rooms sets Units, Dailies and SystemDailies before the first Step.
type Service struct {
	Units         []Unit  // of every tenant, and of the system space
	Dailies       []Daily // of every tenant
	SystemDailies []Daily // of the system space

	db           *records.DB
	livingTenant func(record []byte) (id string, err error)
	background   background
	wake         chan struct{} // a job was queued
}

// New returns a Service. livingTenant reads a tenant's record: its id, empty if the tenant is being deleted.
func New(db *records.DB, livingTenant func(record []byte) (id string, err error)) *Service {
	svc := &Service{db: db, wake: make(chan struct{}, 1), livingTenant: livingTenant}
	db.Committed = svc.queueWork
	return svc
}

// background is what is remembered between steps. All of it can be lost: a look at all tenants finds what there is.
type background struct {
	mu     sync.Mutex
	queue  []string        // tenants that this process queued work for, each once
	queued map[string]bool // what queue holds
	turn   atomic.Uint32   // the unit that comes first in the next step of a tenant
	looked []byte          // the key of the tenant that a look has come to; nil: the next look is a new one
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

// next takes the first tenant out of the queue.
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

// queueWork notes that a tenant has work where a batch of its holds a job. Summaries have a queue of their own.
func (svc *Service) queueWork(tenant string, b store.Batch) {
	if slices.ContainsFunc(b.Put, func(p store.Pair) bool {
		return bytes.HasPrefix(p.Key, []byte(records.JobPrefix)) && !records.SummaryJob.Is(p.Key)
	}) {
		svc.Poke(tenant)
	}
}

// Poke notes that a tenant has work, and wakes Run.
func (svc *Service) Poke(tenant string) {
	svc.background.add(tenant)
	select {
	case svc.wake <- struct{}{}:
	default:
	}
}

// Step does one unit of background work, if there is any, and reports whether there may be more. What this process
// queued comes first. Then a look at all tenants finds what came due by time, and what other processes left.
func (svc *Service) Step(ctx context.Context) (more bool, err error) {
	if more, err := svc.stepQueued(ctx); more || err != nil {
		return more, err
	}
	return svc.stepLook(ctx)
}

// stepQueued does a unit for one tenant that this process queued work for. Where no tenant is queued it reads nothing,
// however many tenants there are. A tenant leaves the queue when none of its units is done, and waits for the next
// look.
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

// stepLook goes on with the look at all tenants until it has found a unit and done it, or has seen them all.
func (svc *Service) stepLook(ctx context.Context) (more bool, err error) {
	var failed error // an error of one tenant, or of the clock, must not stop the others
	from := svc.background.lookedTo()
	if from == nil {
		failed = svc.db.SaveClock(ctx)
		done, err := svc.stepTenant(ctx, records.SystemTenant)
		if failed = errors.Join(failed, err); done {
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
		if failed = errors.Join(failed, err); done {
			svc.background.setLooked(it.Key)
			return true, failed
		}
	}
	svc.background.setLooked(nil)
	return false, failed
}

// stepRecord does a unit for the tenant that a record describes.
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

// Unit is one kind of background work: where in a tenant's space the records lie that say that there is some, and what
// does a piece of it. Each room has a method that lists its units.
type Unit struct {
	Due func(tenant string, now time.Time) store.Range
	Do  func(ctx context.Context, tenant string, found []store.Item) (done bool, err error)
}

// FirstJob is the unit that does the first job of a range.
func FirstJob(jobs store.Range, do func(ctx context.Context, tenant string, job store.Item) error) Unit {
	return Unit{firstOf(jobs), func(ctx context.Context, tenant string, found []store.Item) (bool, error) {
		return true, do(ctx, tenant, found[0])
	}}
}

// AnyJob is the unit of a step that looks for its jobs by itself. The step runs where the range holds any job.
func AnyJob(jobs store.Range, step func(ctx context.Context, tenant string) (done bool, err error)) Unit {
	return Unit{firstOf(jobs), func(ctx context.Context, tenant string, _ []store.Item) (bool, error) {
		return step(ctx, tenant)
	}}
}

func firstOf(jobs store.Range) func(string, time.Time) store.Range {
	jobs.Limit = 1
	return func(string, time.Time) store.Range { return jobs }
}

// stepTenant does one piece of one tenant's work: the first that does not fail. The error is of those that did.
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
	// Each step begins with another unit, so that each has its turn however much work another one has.
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

// PrefixJobs are the jobs whose keys end with the prefix that is to be swept: BoardJob and InboxJob.
var PrefixJobs = records.PrefixRange([]byte(records.JobPrefix + "c"))

// SweepPrefixed removes a chunk of what begins with the prefix that a job names, and the job with the last one.
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

// Run does background work until ctx ends: at once what an earlier process left, when woken what was queued, and
// with every tick a look for what came due.
func (svc *Service) Run(ctx context.Context, tick <-chan struct{}) {
	step := svc.Step
	for {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = step(ctx); err != nil && !errors.Is(err, context.Canceled) {
				svc.db.Log.Error("background step failed; it is tried again later", "error", err)
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
