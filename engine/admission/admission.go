// Package admission shares a bounded number of places between tenants, so that a tenant with much to do does not keep the
// others from their turn. Turns is the order alone, for a caller that has a lock and a queue of its own. Gate lets
// goroutines wait for a place.
package admission

import (
	"strings"
	"time"
)

// Turns says whose turn it is: a free place goes to the tenant that holds the fewest, and of those to the one that was
// served longest ago. Not safe for concurrent use.
type Turns struct {
	places int // in all
	share  int // one tenant's at most
	crowd  int // the same while another tenant is about; 0: as share
	inside int // one tenant's at most while another one is about, counting those that departed

	resting map[string]time.Time // tenants that get no place before a time

	// Another tenant is about for some grants after a place went to another tenant than the place before.
	grants, changed uint64
	changedAt       time.Time
	last            string

	used    int
	held    map[string]int
	away    map[string]int    // places that were departed from, and to which their holders return
	waiting map[string]uint64 // tenants that wait: the turn in which each was served last, or joined
	turn    uint64            // grows with each tenant that joins or is served
}

// NewTurns makes Turns of so many places, of which one tenant holds at most share.
func NewTurns(places, share int) *Turns {
	return &Turns{places: places, share: max(1, share), held: map[string]int{}, away: map[string]int{},
		waiting: map[string]uint64{}, resting: map[string]time.Time{}}
}

// A tenant that was given a place counts as being about for so many grants, and no longer than aboutTime: a tenant that is
// slowed down for its sake makes few grants.
const (
	about     = 2048
	aboutTime = 5 * time.Second
)

// full tells whether a tenant has all that it may have now.
func (t *Turns) full(tenant string) bool {
	held := t.held[tenant]
	if t.crowded() {
		return t.rests(tenant) || held >= t.crowd || held+t.away[tenant] >= t.inside
	}
	return held >= t.share
}

// crowded tells whether several tenants are about, and something is to change for that.
func (t *Turns) crowded() bool {
	return t.crowd > 0 && t.changed > 0 && t.grants-t.changed < about && time.Since(t.changedAt) < aboutTime
}

// Rest gives a tenant no place for some time, beside any time before that is not over. It counts while another tenant
// is about.
func (t *Turns) Rest(tenant string, d time.Duration) {
	from := time.Now()
	if until := t.resting[tenant]; until.After(from) {
		from = until
	}
	t.resting[tenant] = from.Add(d)
}

// rests forgets a rest that is over, so that Rested does not give it.
func (t *Turns) rests(tenant string) bool {
	until, ok := t.resting[tenant]
	if !ok || time.Now().Before(until) {
		return ok
	}
	delete(t.resting, tenant)
	return false
}

// Rested is when the first of those that wait has rested; ok is false where none gets a place then: none rests, or none
// is free.
func (t *Turns) Rested() (at time.Time, ok bool) {
	if !t.crowded() || t.used >= t.places {
		return at, false
	}
	for name, until := range t.resting {
		if _, waits := t.waiting[name]; waits && (!ok || until.Before(at)) {
			at, ok = until, true
		}
	}
	return at, ok
}

// Take takes a place for a tenant at once, where one is free and the tenant does not hold its share.
func (t *Turns) Take(tenant string) bool {
	if t.used >= t.places || t.full(tenant) {
		return false
	}
	t.grant(tenant)
	t.Force(tenant)
	return true
}

// Nobody begins the names of holders that are no tenants, such as senders without a key. They take their turns, but do not
// count as being about: anybody could slow a tenant down otherwise.
const Nobody = "\x00"

func (t *Turns) grant(tenant string) {
	t.grants++
	if strings.HasPrefix(tenant, Nobody) {
		return
	}
	if tenant != t.last && t.last != "" {
		t.changed, t.changedAt = t.grants, time.Now()
	}
	t.last = tenant
}

// Force takes a place for a tenant, also where none is free: the next ones then wait longer.
func (t *Turns) Force(tenant string) {
	t.used++
	t.held[tenant]++
}

// Free gives a place back.
func (t *Turns) Free(tenant string) {
	t.used--
	if t.held[tenant]--; t.held[tenant] == 0 {
		delete(t.held, tenant)
	}
}

// Depart gives a place up for a short time, in which it still counts as inside.
func (t *Turns) Depart(tenant string) {
	t.Free(tenant)
	t.away[tenant]++
}

// Return is Force for a holder that departed.
func (t *Turns) Return(tenant string) {
	if t.away[tenant]--; t.away[tenant] == 0 {
		delete(t.away, tenant)
	}
	t.Force(tenant)
}

// Wait notes that a tenant has something in line. Doing so again changes nothing.
func (t *Turns) Wait(tenant string) {
	if _, ok := t.waiting[tenant]; !ok {
		t.turn++
		t.waiting[tenant] = t.turn
	}
}

// WaitLast is Wait, behind all tenants that wait already.
func (t *Turns) WaitLast(tenant string) {
	t.turn++
	t.waiting[tenant] = t.turn
}

// Leave notes that a tenant has nothing in line any more.
func (t *Turns) Leave(tenant string) { delete(t.waiting, tenant) }

// Behind reports whether another tenant waits that holds fewer places than this one, which holds some.
func (t *Turns) Behind(tenant string) bool {
	for name := range t.waiting {
		if name != tenant && t.held[name] < t.held[tenant] {
			return true
		}
	}
	return false
}

// Next takes a place for the tenant whose turn it is, among those that wait and are ready; where ready is nil, all are.
// It is not ok where no place is free or all of them hold their share.
func (t *Turns) Next(ready func(tenant string) bool) (tenant string, ok bool) {
	if t.used >= t.places {
		return "", false
	}
	for name, served := range t.waiting {
		held, least := t.held[name], t.held[tenant]
		first := !ok || held < least || held == least && served < t.waiting[tenant]
		if first && !t.full(name) && (ready == nil || ready(name)) {
			tenant, ok = name, true
		}
	}
	if ok {
		t.turn++
		t.waiting[tenant] = t.turn
		t.grant(tenant)
		t.Force(tenant)
	}
	return tenant, ok
}

// NextDue is Next among the tenants whose work is due by now; due tells of each when its work is due, and whether it
// has any. Where no tenant is next, NextDue says when to look again: at the zero time where nothing waits for time to
// pass.
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
