package admission

import (
	"testing"
	"time"
)

// heldBy and inLine are what tests ask of all tenants.
func (t *Turns) heldBy() map[string]int {
	held := map[string]int{}
	for name, s := range t.tenants {
		if s.held > 0 {
			held[name] = s.held
		}
	}
	return held
}

func (t *Turns) inLine() map[string]bool {
	waiting := map[string]bool{}
	for name, s := range t.tenants {
		if s.joined > 0 {
			waiting[name] = true
		}
	}
	return waiting
}

func TestAdmits(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	soon := now.Add(time.Millisecond)
	l := limits{places: 4, share: 3, crowd: 1, inside: 2}
	for _, c := range []struct {
		name           string
		tenant         standing
		used           int
		alone, crowded bool // whether it is admitted when it is the only active tenant, and when it is not
	}{
		{"nothing is used", standing{}, 0, true, true},
		{"every place is used", standing{}, 4, false, false},
		{"more places are used than there are", standing{}, 5, false, false},
		{"the last place", standing{}, 3, true, true},
		{"it holds a crowd's share", standing{held: 1}, 1, true, false},
		{"it holds less than its share", standing{held: 2}, 2, true, false},
		{"it holds its share", standing{held: 3}, 3, false, false},
		{"one of its holders is away", standing{away: 1}, 0, true, true},
		{"as many are away as may be inside", standing{away: 2}, 0, true, false},
		{"those that are away hold nothing", standing{held: 2, away: 9}, 2, true, false},
		{"it rests", standing{rests: soon}, 0, true, false},
		{"its rest ends now", standing{rests: now}, 0, true, true},
		{"it waits, which makes no difference", standing{joined: 7}, 3, true, true},
	} {
		if alone := l.admits(c.tenant, c.used, false, now); alone != c.alone {
			t.Errorf("%s: admitted alone: %t", c.name, alone)
		}
		if crowded := l.admits(c.tenant, c.used, true, now); crowded != c.crowded {
			t.Errorf("%s: admitted beside others: %t", c.name, crowded)
		}
	}
}

func TestBefore(t *testing.T) {
	for _, c := range []struct {
		a, b standing
		want bool
	}{
		{standing{held: 0, joined: 9}, standing{held: 1, joined: 1}, true},
		{standing{held: 1, joined: 1}, standing{held: 0, joined: 9}, false},
		{standing{held: 1, joined: 1}, standing{held: 1, joined: 2}, true},
		{standing{held: 1, joined: 2}, standing{held: 1, joined: 1}, false},
		{standing{held: 1, away: 5, joined: 1}, standing{held: 1, joined: 2}, true},
	} {
		if got := c.a.before(c.b); got != c.want {
			t.Errorf("%+v before %+v: %t", c.a, c.b, got)
		}
	}
}

func TestActivity(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	var a activity
	grant := func(times int, tenant string) {
		for range times {
			a.granted(tenant, now)
		}
	}
	expect := func(want bool, why string) {
		t.Helper()
		if got := a.several(now); got != want {
			t.Errorf("%s: several are active: %t", why, got)
		}
	}
	expect(false, "nobody came")
	grant(3, "a")
	expect(false, "one tenant came")
	grant(1, Nobody+"address")
	grant(1, "a")
	expect(false, "a sender without a key came between")
	grant(1, "b")
	expect(true, "another tenant came")
	grant(activeGrants-1, "b")
	expect(true, "it was given many places since")
	grant(1, "b")
	expect(false, "the other tenant came too many grants ago")
	grant(1, "a")
	expect(true, "it came again")
	now = now.Add(activeTime)
	expect(false, "it came too long ago")
}
