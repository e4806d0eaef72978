package engine

import (
	"context"
	"sync"
	"time"
)

// amount is how many things there are, and the bytes they take.
type amount struct {
	count int
	bytes int64
}

func (a *amount) add(b amount) { a.count, a.bytes = a.count+b.count, a.bytes+b.bytes }

func (a *amount) subtract(b amount) { a.add(amount{-b.count, -b.bytes}) }

// tallies knows about how much of something each tenant keeps, so that a quota can be held. Nothing of it is stored: a
// stored count would be one record that every write of a tenant has to change, and would be wrong for what was there
// before the quota was. Instead a tenant is counted now and then, and this process's own changes are added.
type tallies struct {
	count func(ctx context.Context, tenant string) (amount, error)
	now   func() time.Time
	// A count is good for life by itself, and to refuse something only for refuses: what other processes store, and what
	// sweeps remove, is not in it.
	life, refuses time.Duration

	mu      sync.Mutex
	tenants map[string]*tally
}

type tally struct {
	mu      sync.Mutex
	kept    amount // pending included
	pending amount // reserved, and not known to be committed
	counted time.Time
}

func (u *tallies) of(tenant string) *tally {
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

// add notes what was stored, or removed where it is negative.
func (u *tallies) add(tenant string, change amount) {
	if u == nil || change == (amount{}) {
		return
	}
	t := u.of(tenant)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept.add(change)
	t.kept.bytes = max(0, t.kept.bytes)
}

// forget has a tenant counted anew.
func (u *tallies) forget(tenant string) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.tenants, tenant)
}

// check asks refuse about what the tenant keeps, and answers its refusal. Requests at the same moment may pass together:
// reserve is what keeps them apart.
func (u *tallies) check(ctx context.Context, tenant string, refuse func(kept amount) error) error {
	t := u.of(tenant)
	t.mu.Lock()
	defer t.mu.Unlock()
	return u.checkLocked(ctx, tenant, t, refuse)
}

// checkLocked counts the tenant where its tally is too old, and before it refuses. What is pending may be in the store
// already, and then counts twice until the next count: too much is refused rather than too little.
func (u *tallies) checkLocked(ctx context.Context, tenant string, t *tally, refuse func(kept amount) error) (full error) {
	for _, life := range [...]time.Duration{u.life, u.refuses} {
		if now := u.now(); t.counted.IsZero() || now.Sub(t.counted) >= life {
			kept, err := u.count(ctx, tenant)
			if err != nil {
				return err
			}
			kept.add(t.pending)
			t.kept, t.counted = kept, now
		}
		if full = refuse(t.kept); full == nil {
			return nil
		}
	}
	return full
}

// reservation is what one change adds to a tally, held from before its commit, so that changes at the same time do not
// all fit into the same room. Nil where there is no quota.
type reservation struct {
	use    *tallies
	tally  *tally
	tenant string
	taken  amount
}

// reserve begins a reservation of nothing; nil where there are no tallies.
func (u *tallies) reserve(tenant string) *reservation {
	if u == nil {
		return nil
	}
	return &reservation{use: u, tally: u.of(tenant), tenant: tenant}
}

// hold reserves a change that refuse lets pass, in place of what an earlier attempt took.
func (r *reservation) hold(ctx context.Context, change amount, refuse func(kept amount) error) error {
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
	r.tally.kept.add(change)
	r.tally.pending.add(change)
	return nil
}

// giveBack is called with the tally locked.
func (r *reservation) giveBack() {
	r.tally.kept.subtract(r.taken)
	r.tally.pending.subtract(r.taken)
	r.taken = amount{}
}

// end keeps what was taken where the change was committed. An idempotent request that was answered from before counts
// twice, until the next count.
func (r *reservation) end(committed bool) {
	if r == nil {
		return
	}
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	if committed {
		r.tally.kept.add(r.taken)
	}
	r.giveBack()
}
