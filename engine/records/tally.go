package records

import (
	"context"
	"sync"
	"time"
)

// Amount is how many things there are, and the bytes they take.
type Amount struct {
	Count int
	Bytes int64
}

// Add adds b to a.
func (a *Amount) Add(b Amount) { a.Count, a.Bytes = a.Count+b.Count, a.Bytes+b.Bytes }

// Subtract takes b from a.
func (a *Amount) Subtract(b Amount) { a.Add(Amount{-b.Count, -b.Bytes}) }

// Tallies know about how much of something each tenant keeps, so that a quota can be held. Nothing of it is stored,
// because a stored count would be one record that every write of a tenant has to change. Instead a tenant is counted
// now and then, and what this process changes is added. Nil tallies hold no quota.
type Tallies struct {
	Count func(ctx context.Context, tenant string) (Amount, error)
	Now   func() time.Time
	// Life is how long a count is good, and Refuses how long it is good for refusing something. Refuses is shorter,
	// because a count lacks what other processes store and what sweeps remove.
	Life, Refuses time.Duration

	mu      sync.Mutex
	tenants map[string]*tally
}

type tally struct {
	mu      sync.Mutex
	kept    Amount // pending included
	pending Amount // reserved, and not known to be committed
	counted time.Time
}

// of gives the tally of a tenant.
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

// Add notes what was stored; a negative change was removed.
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

// Forget has a tenant counted anew.
func (u *Tallies) Forget(tenant string) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.tenants, tenant)
}

// Check asks refuse about what the tenant keeps, and answers its refusal. Two requests at the same moment may pass
// together where there is room for one of them only; Reserve prevents that.
func (u *Tallies) Check(ctx context.Context, tenant string, refuse func(kept Amount) error) error {
	t := u.of(tenant)
	t.mu.Lock()
	defer t.mu.Unlock()
	return u.checkLocked(ctx, tenant, t, refuse)
}

// checkLocked counts the tenant where its tally is too old, and before it refuses. What is pending may be in the store
// already, and then it counts twice until the next count: too much is refused rather than too little.
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

// Reservation is what one change adds to a tally. It is held from before the change's commit, so that changes at the
// same time do not all fit into the same room. A nil one does nothing.
type Reservation struct {
	use    *Tallies
	tally  *tally
	tenant string
	taken  Amount
}

// Reserve begins a reservation, of nothing yet. It is nil where the tallies are.
func (u *Tallies) Reserve(tenant string) *Reservation {
	if u == nil {
		return nil
	}
	return &Reservation{use: u, tally: u.of(tenant), tenant: tenant}
}

// Hold asks refuse about what the tenant keeps, and reserves the change where it does not refuse, in place of what an
// earlier Hold took.
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

// giveBack ends what is reserved. The tally must be locked.
func (r *Reservation) giveBack() {
	r.tally.kept.Subtract(r.taken)
	r.tally.pending.Subtract(r.taken)
	r.taken = Amount{}
}

// End ends the reservation, and adds it to the tally where the change was committed. An idempotent request that got its
// earlier answer counts twice, until the next count.
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
