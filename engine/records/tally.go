package records

import (
	"context"
	"sync"
	"time"
)

// Amount is a number of items and their size in bytes.
type Amount struct {
	Count int
	Bytes int64
}

// Add adds b to a.
func (a *Amount) Add(b Amount) { a.Count, a.Bytes = a.Count+b.Count, a.Bytes+b.Bytes }

// Subtract subtracts b from a.
func (a *Amount) Subtract(b Amount) { a.Add(Amount{-b.Count, -b.Bytes}) }

// Tallies estimate how much each tenant stores, to enforce a quota. They are not stored, because a stored count would
// be one record that every write of a tenant has to change. Instead a tenant is counted from time to time, and the
// changes of this process are added. Nil tallies enforce no quota.
type Tallies struct {
	Count func(ctx context.Context, tenant string) (Amount, error)
	Now   func() time.Time
	// Life is how long a count is valid, and Refuses how long it is valid for a refusal. Refuses is shorter, because
	// a count misses what other processes store and what sweeps remove.
	Life, Refuses time.Duration

	mu      sync.Mutex
	tenants map[string]*tally
}

type tally struct {
	mu      sync.Mutex
	kept    Amount // including pending
	pending Amount // reserved, and not known to be committed
	counted time.Time
}

// of returns the tally of a tenant.
func (u *Tallies) of(tenant string) *tally {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tenants == nil {
		u.tenants = map[string]*tally{}
	}
	t := u.tenants[tenant]
	if t == nil {
		t = new(tally)
		u.tenants[tenant] = t
	}
	return t
}

// Add records that data was stored or, if change is negative, removed.
func (u *Tallies) Add(tenant string, change Amount) {
	if u == nil || change == (Amount{}) {
		return
	}
	t := u.of(tenant)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept.Add(change)
	t.kept.Bytes = max(0, t.kept.Bytes)
}

// Forget makes the next check count the tenant again.
func (u *Tallies) Forget(tenant string) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.tenants, tenant)
}

// Check calls refuse with the amount that the tenant stores, and returns its error. Two concurrent requests may both
// pass even if only one of them fits; Reserve prevents that.
func (u *Tallies) Check(ctx context.Context, tenant string, refuse func(kept Amount) error) error {
	t := u.of(tenant)
	t.mu.Lock()
	defer t.mu.Unlock()
	return u.checkLocked(ctx, tenant, t, refuse)
}

// checkLocked counts the tenant if its tally is too old, and before a refusal. Pending data may already be in the
// store and then counts twice until the next count, so it refuses too much rather than too little.
func (u *Tallies) checkLocked(ctx context.Context, tenant string, t *tally, refuse func(kept Amount) error,
) (full error) {
	for _, life := range [...]time.Duration{u.Life, u.Refuses} {
		if now := u.Now(); t.counted.IsZero() || now.Sub(t.counted) >= life {
			kept, err := u.Count(ctx, tenant)
			if err != nil {
				return err
			}
			kept.Add(t.pending)
			t.kept, t.counted = kept, now
		}
		if full = refuse(t.kept); full == nil {
			return nil
		}
	}
	return full
}

// Reservation is the amount that one change adds to a tally. It is held from before the change's commit, so that
// concurrent changes cannot use the same remaining quota. A nil Reservation does nothing.
type Reservation struct {
	use    *Tallies
	tally  *tally
	tenant string
	taken  Amount
}

// Reserve starts an empty reservation. It returns nil if u is nil.
func (u *Tallies) Reserve(tenant string) *Reservation {
	if u == nil {
		return nil
	}
	return &Reservation{use: u, tally: u.of(tenant), tenant: tenant}
}

// Hold calls refuse with the amount that the tenant stores. If refuse returns nil, Hold reserves the change, in place
// of what an earlier Hold reserved.
func (r *Reservation) Hold(ctx context.Context, change Amount, refuse func(kept Amount) error) error {
	if r == nil {
		return nil
	}
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	r.giveBack()
	if err := r.use.checkLocked(ctx, r.tenant, r.tally, refuse); err != nil {
		return err
	}
	r.taken = change
	r.tally.kept.Add(change)
	r.tally.pending.Add(change)
	return nil
}

// giveBack removes the reservation from the tally, which must be locked.
func (r *Reservation) giveBack() {
	r.tally.kept.Subtract(r.taken)
	r.tally.pending.Subtract(r.taken)
	r.taken = Amount{}
}

// End ends the reservation, and adds it to the tally if the change was committed. An idempotent request that got its
// earlier answer counts twice until the next count.
func (r *Reservation) End(committed bool) {
	if r == nil {
		return
	}
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	if committed {
		r.tally.kept.Add(r.taken)
	}
	r.giveBack()
}
