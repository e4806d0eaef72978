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

func (a *Amount) Add(b Amount) { a.Count, a.Bytes = a.Count+b.Count, a.Bytes+b.Bytes }

func (a *Amount) Subtract(b Amount) { a.Add(Amount{-b.Count, -b.Bytes}) }

// Tallies knows about how much of something each tenant keeps, so that a quota can be held. Nothing of it is stored: a
// stored count would be one record that every write of a tenant has to change, and would be wrong for what was there
// before the quota was. Instead a tenant is counted now and then, and this process's own changes are added.
type Tallies struct {
	Count func(ctx context.Context, tenant string) (Amount, error)
	Now   func() time.Time
	// A count is good for life by itself, and to refuse something only for refuses: what other processes store, and what
	// sweeps remove, is not in it.
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

// Add notes what was stored, or removed where it is negative.
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

// Check asks refuse about what the tenant keeps, and answers its refusal. Requests at the same moment may pass together:
// reserve is what keeps them apart.
func (u *Tallies) Check(ctx context.Context, tenant string, refuse func(kept Amount) error) error {
	t := u.of(tenant)
	t.mu.Lock()
	defer t.mu.Unlock()
	return u.checkLocked(ctx, tenant, t, refuse)
}

// checkLocked counts the tenant where its tally is too old, and before it refuses. What is pending may be in the store
// already, and then counts twice until the next count: too much is refused rather than too little.
func (u *Tallies) checkLocked(ctx context.Context, tenant string, t *tally, refuse func(kept Amount) error) (full error) {
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

// Reservation is what one change adds to a tally, held from before its commit, so that changes at the same time do not
// all fit into the same room. Nil where there is no quota.
type Reservation struct {
	use    *Tallies
	tally  *tally
	tenant string
	taken  Amount
}

// Reserve begins a reservation of nothing; nil where there are no tallies.
func (u *Tallies) Reserve(tenant string) *Reservation {
	if u == nil {
		return nil
	}
	return &Reservation{use: u, tally: u.of(tenant), tenant: tenant}
}

// Hold reserves a change that refuse lets pass, in place of what an earlier attempt took.
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

// giveBack is called with the tally locked.
func (r *Reservation) giveBack() {
	r.tally.kept.Subtract(r.taken)
	r.tally.pending.Subtract(r.taken)
	r.taken = Amount{}
}

// End keeps what was taken where the change was committed. An idempotent request that was answered from before counts
// twice, until the next count.
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
