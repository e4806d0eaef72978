package engine

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/store"
)

// messageTallyLife is how long a tally of a tenant's messages holds before the heads are summed up again. What this process
// stores and removes meanwhile is counted in.
const messageTallyLife = time.Hour

// Where other processes store and remove too, a tally holds that much shorter, and shorter still to refuse something.
const (
	sharedTallyLife    = 5 * time.Minute
	sharedTallyRefuses = 10 * time.Second
)

// tallies know about how many bytes each tenant's messages take, without a record that every turn would have to write.
type tallies struct {
	limit   int64 // 0: no bound, and nothing is counted
	mu      sync.Mutex
	tenants map[string]*tally
}

type tally struct {
	counting sync.Mutex // one at a time
	bytes    int64
	at       time.Time // zero: never counted
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
func (u *tallies) add(tenant string, bytes int64) {
	if u.limit == 0 || bytes == 0 {
		return
	}
	t := u.of(tenant)
	u.mu.Lock()
	defer u.mu.Unlock()
	t.bytes = max(0, t.bytes+bytes)
}

// forget has a tenant counted anew.
func (u *tallies) forget(tenant string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.tenants, tenant)
}

// known gives a tally where it is younger than life.
func (u *tallies) known(t *tally, now time.Time, life time.Duration) (bytes int64, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return t.bytes, !t.at.IsZero() && now.Sub(t.at) < life
}

// checkQuota refuses messages that would be more than the tenant may keep. Requests at the same moment may pass it
// together: the bound is held about, not to the byte.
func (e *Engine) checkQuota(ctx context.Context, c Caller, more int64) error {
	limit := e.tallies.limit
	if limit == 0 {
		return nil
	}
	life := messageTallyLife
	if !e.alone {
		life = sharedTallyLife
	}
	bytes, err := e.messageBytes(ctx, c.Tenant, life)
	if err == nil && bytes+more > limit && !e.alone {
		bytes, err = e.messageBytes(ctx, c.Tenant, sharedTallyRefuses)
	}
	if err != nil {
		return err
	}
	if bytes+more > limit {
		return errorf(NoSpace, "quota_exceeded",
			"the tenant's messages take about %d bytes and may take %d; this would add %d: delete or purge conversations first",
			bytes, limit, more)
	}
	return nil
}

// messageBytes is about what a tenant's messages take, as counted no longer ago than life.
func (e *Engine) messageBytes(ctx context.Context, tenant string, life time.Duration) (int64, error) {
	t := e.tallies.of(tenant)
	if n, ok := e.tallies.known(t, e.now(), life); ok {
		return n, nil
	}
	t.counting.Lock()
	defer t.counting.Unlock()
	if n, ok := e.tallies.known(t, e.now(), life); ok {
		return n, nil
	}
	n, err := e.countMessageBytes(ctx, tenant)
	if err != nil {
		return 0, err
	}
	e.tallies.mu.Lock()
	defer e.tallies.mu.Unlock()
	t.bytes, t.at = n, e.now()
	return n, nil
}

// countMessageBytes sums up the heads of the tenant's sessions.
func (e *Engine) countMessageBytes(ctx context.Context, tenant string) (n int64, err error) {
	projects, err := e.store.Read(ctx, tenant, store.Query{Ranges: []store.Range{prefixRange(projectKey("")[:2])}})
	if err != nil {
		return 0, err
	}
	for _, it := range projects.Ranges[0] {
		var p project
		if it.Damaged || json.Unmarshal(it.Value, &p) != nil {
			continue // whoever asks for the project is told
		}
		var after []byte
		for more := true; more; {
			var heads []namedHead
			if heads, after, err = e.readHeads(ctx, tenant, p.Incarnation, after); err != nil {
				return 0, err
			}
			for i := range heads {
				n += int64(heads[i].Bytes)
			}
			more = after != nil
		}
	}
	return n, nil
}
