// Package admission shares a bounded number of places between tenants, so that a tenant with much to do does not delay
// the others. Turns decides who is next, for a caller that has a lock and a queue of its own. Gate lets goroutines wait
// for a place.
package admission

import (
	"strings"
	"time"
)

// limits bound the places of a gate.
type limits struct {
	places int // in all
	share  int // of one tenant

	// These apply to each tenant while several are active.
	crowd  int // the maximum for one tenant while several are active; 0 means no such limit
	inside int // the same, counting places that were left for a short time
}

// standing is what Turns knows about one tenant.
type standing struct {
	held   int       // places that it holds
	away   int       // places that it left for a short time
	joined uint64    // the turn in which it began to wait, or was served last while waiting; 0 if it does not wait
	rests  time.Time // it gets no place before, while several tenants are active
}

// admits reports whether a tenant may take a place when the given number is used.
func (l limits) admits(s standing, used int, crowded bool, now time.Time) bool {
	switch {
	case used >= l.places:
		return false
	case !crowded:
		return s.held < l.share
	}
	return s.held < l.crowd && s.held+s.away < l.inside && !s.rests.After(now)
}

// before reports whether a waiting tenant is served before another one. The one that holds fewer places comes first; if
// both hold the same number, the one that was served longer ago.
func (s standing) before(other standing) bool {
	if s.held != other.held {
		return s.held < other.held
	}
	return s.joined < other.joined
}

// Turns says whose turn it is: a free place goes to the waiting tenant that holds the fewest, and of those to the one that
// was served longest ago. It is not safe for concurrent use.
type Turns struct {
	limits  limits
	active  activity
	used    int
	tenants map[string]*standing // tenants about which anything is known
	turn    uint64               // grows when a tenant begins to wait or is served
}

// NewTurns returns Turns with n places, of which one tenant may hold at most share.
func NewTurns(places, share int) *Turns {
	return &Turns{limits: limits{places: places, share: max(1, share)}, tenants: map[string]*standing{}}
}

// activity tracks whether several tenants are active: whether, within the last activeGrants grants and the last
// activeTime, a place went to a different tenant than the place before. The time counts too, because a tenant that is
// slowed down makes few grants.
type activity struct {
	grants    uint64
	changed   uint64 // the latest grant to a different tenant than the grant before; 0 if there was none
	changedAt time.Time
	last      string
}

const (
	activeGrants = 2048
	activeTime   = 5 * time.Second
)

// Nobody begins the names of holders that are not tenants, such as senders without a key. They take turns like tenants,
// but do not count as active: otherwise anybody could slow a tenant down.
const Nobody = "\x00"

func (a *activity) granted(tenant string, now time.Time) {
	a.grants++
	if strings.HasPrefix(tenant, Nobody) {
		return
	}
	if tenant != a.last && a.last != "" {
		a.changed = a.grants
		a.changedAt = now
	}
	a.last = tenant
}

func (a *activity) several(now time.Time) bool {
	return a.changed > 0 && a.grants-a.changed < activeGrants && now.Sub(a.changedAt) < activeTime
}

// crowded reports whether the limits for several active tenants apply.
func (t *Turns) crowded(now time.Time) bool { return t.limits.crowd > 0 && t.active.several(now) }

// of returns what is known about a tenant, so that it can be changed. Call drop after any change that may leave nothing
// to know.
func (t *Turns) of(tenant string) *standing {
	s := t.tenants[tenant]
	if s == nil {
		s = &standing{}
		t.tenants[tenant] = s
	}
	return s
}

// drop forgets a tenant if there is nothing to know of it.
func (t *Turns) drop(tenant string, s *standing) {
	if s.held == 0 && s.away == 0 && s.joined == 0 && (s.rests.IsZero() || !s.rests.After(time.Now())) {
		delete(t.tenants, tenant)
	}
}

// Take takes a place for a tenant if it may have one now.
func (t *Turns) Take(tenant string) bool {
	now := time.Now()
	s := t.of(tenant)
	if !t.limits.admits(*s, t.used, t.crowded(now), now) {
		t.drop(tenant, s)
		return false
	}
	t.active.granted(tenant, now)
	s.held++
	t.used++
	return true
}

// Force takes a place for a tenant, even if none is free. Those that wait then wait longer.
func (t *Turns) Force(tenant string) {
	t.of(tenant).held++
	t.used++
}

// Free returns a place.
func (t *Turns) Free(tenant string) {
	s := t.of(tenant)
	s.held--
	t.used--
	t.drop(tenant, s)
}

// Away records that n more of a tenant's holders have left for a short time or, if n is negative, that they are back.
func (t *Turns) Away(tenant string, n int) {
	s := t.of(tenant)
	s.away += n
	t.drop(tenant, s)
}

// Rest gives a tenant no place for a duration, which begins when its last rest ends. It applies while several tenants
// are active.
func (t *Turns) Rest(tenant string, d time.Duration) {
	s := t.of(tenant)
	from := time.Now()
	if s.rests.After(from) {
		from = s.rests
	}
	s.rests = from.Add(d)
}

// Rested returns when the first waiting tenant has rested. It is not ok if no tenant would get a place then.
func (t *Turns) Rested() (at time.Time, ok bool) {
	now := time.Now()
	if !t.crowded(now) || t.used >= t.limits.places {
		return at, false
	}
	for _, s := range t.tenants {
		if s.joined > 0 && s.rests.After(now) && (!ok || s.rests.Before(at)) {
			at = s.rests
			ok = true
		}
	}
	return at, ok
}

// Wait notes that a tenant waits. If it waits already, nothing changes.
func (t *Turns) Wait(tenant string) {
	if t.of(tenant).joined == 0 {
		t.WaitLast(tenant)
	}
}

// WaitLast records that a tenant waits, after all others.
func (t *Turns) WaitLast(tenant string) {
	t.turn++
	t.of(tenant).joined = t.turn
}

// Leave records that a tenant no longer waits.
func (t *Turns) Leave(tenant string) {
	s := t.of(tenant)
	s.joined = 0
	t.drop(tenant, s)
}

// Behind reports whether another tenant waits that holds fewer places than this one.
func (t *Turns) Behind(tenant string) bool {
	own := t.tenants[tenant]
	for _, s := range t.tenants {
		if own != nil && s.joined > 0 && s.held < own.held {
			return true
		}
	}
	return false
}

// Next takes a place for the tenant whose turn it is, among those that wait and are ready; a nil ready means that all
// are. ok is false if none of them may have a place.
func (t *Turns) Next(ready func(tenant string) bool) (tenant string, ok bool) {
	if t.used >= t.limits.places {
		return "", false
	}
	now := time.Now()
	crowded := t.crowded(now)
	var first *standing
	for name, s := range t.tenants {
		if s.joined > 0 && (!ok || s.before(*first)) && t.limits.admits(*s, t.used, crowded, now) &&
			(ready == nil || ready(name)) {
			tenant = name
			first = s
			ok = true
		}
	}
	if ok {
		t.turn++
		t.used++
		first.joined = t.turn
		first.held++
		t.active.granted(tenant, now)
	}
	return tenant, ok
}

// NextDue is Next among the tenants whose work is due by now. due returns when a tenant's work is due, and whether it has
// any. If no tenant is next, NextDue returns when to look again, or the zero time if nothing waits for time to pass.
func (t *Turns) NextDue(now time.Time, due func(tenant string) (at time.Time, any bool)) (tenant string,
	next time.Time, ok bool) {
	tenant, ok = t.Next(func(tenant string) bool {
		at, any := due(tenant)
		if any && at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
		return any && !at.After(now)
	})
	return tenant, next, ok
}
