package admission

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace has a tenant with a long line work for a millisecond at a time, and counts how often it can: all the time while
// it is alone, and a quarter of it while another tenant is about. Neither that one nor one with a short line rests.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(4, 3)
		g.Crowd(1, 2)
		g.Pace(8, 3)
		ctx, cancel := context.WithCancel(t.Context())
		var loud, few, quiet atomic.Int64
		work := func(tenant string, n *atomic.Int64) bool {
			p, err := g.Hold(ctx, tenant)
			if err != nil {
				return false
			}
			time.Sleep(time.Millisecond)
			n.Add(1)
			p.Leave()
			return true
		}
		start := func(tenant string, n *atomic.Int64, many int) {
			for range many {
				go func() {
					for ctx.Err() == nil && work(tenant, n) {
					}
				}()
			}
		}
		inASecond := func(n *atomic.Int64) int64 {
			n.Store(0)
			time.Sleep(time.Second)
			synctest.Wait()
			return n.Load()
		}
		start("loud", &loud, 20)
		if n := inASecond(&loud); n != 3000 {
			t.Errorf("alone it worked %d times in a second, in three places", n)
		}
		loud.Store(0)
		for range 100 {
			time.Sleep(9 * time.Millisecond)
			before := time.Now()
			work("quiet", &quiet)
			if waited := time.Since(before) - time.Millisecond; waited > 0 {
				t.Errorf("the quiet tenant waited for %v", waited)
			}
		}
		if n := loud.Load(); n < 245 || n > 290 { // It was given three places just before.
			t.Errorf("beside another it worked %d times in a second", n)
		}
		start("few", &few, 4)
		if n := inASecond(&few); n != 1000 {
			t.Errorf("a tenant with a short line worked %d times in a second, in one place", n)
		}
		cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		if g.turns.used != 0 || len(g.lines) != 0 {
			t.Errorf("not empty: %+v", g.turns)
		}
	})
}

// TestPaceEnds holds that a tenant that was made to rest has all of its places again once it is alone, and that only
// tenants make another one rest.
func TestPaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2, 1)
		g.Crowd(1, 1)
		g.Pace(1, 3)
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int64
		for range 3 {
			go func() {
				for ctx.Err() == nil {
					p, err := g.Hold(ctx, "loud")
					if err != nil {
						return
					}
					time.Sleep(time.Millisecond)
					n.Add(1)
					p.Leave()
				}
			}()
		}
		inASecond := func() int64 {
			synctest.Wait()
			n.Store(0)
			time.Sleep(time.Second)
			synctest.Wait()
			return n.Load()
		}
		visit := func(name string) {
			if p, err := g.Hold(ctx, name); err == nil {
				p.Leave()
			}
		}
		visit(Nobody + "address")
		if n := inASecond(); n != 1000 {
			t.Errorf("behind somebody without a key it worked %d times", n)
		}
		visit("quiet")
		if n := inASecond(); n > 300 {
			t.Errorf("behind another tenant it worked %d times", n)
		}
		time.Sleep(activeTime)
		if n := inASecond(); n != 1000 {
			t.Errorf("alone again it worked %d times", n)
		}
		cancel()
		time.Sleep(time.Second)
	})
}

// TestRestedOnce holds that a tenant that has rested, and yet gets no place, is not said to rest any more: its gate
// would look for it again and again until a place is free.
func TestRestedOnce(t *testing.T) {
	for _, places := range []int{2, 4} { // none is free, or the tenant holds all that it may have
		synctest.Test(t, func(t *testing.T) {
			turns := NewTurns(places, places)
			turns.limits.crowd, turns.limits.inside = 1, 2
			turns.Take("quiet")
			turns.Free("quiet")
			turns.Take("loud")
			turns.Force("loud")
			turns.Wait("loud")
			turns.Rest("loud", time.Millisecond)
			if places > 2 {
				if at, ok := turns.Rested(); !ok || time.Until(at) != time.Millisecond {
					t.Errorf("it rests until %v, %t", at, ok)
				}
			}
			time.Sleep(2 * time.Millisecond)
			if name, ok := turns.Next(nil); ok {
				t.Errorf("%s got one place of %d too many", name, places)
			}
			if at, ok := turns.Rested(); ok {
				t.Errorf("of %d places, it rests until %v ago", places, time.Since(at))
			}
		})
	}
}
