package admission

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// line sends tenants into a gate, in this order, and notes who comes through.
func line(g *Gate, tenants string) (through chan string) {
	through = make(chan string, len(tenants))
	for _, t := range tenants {
		go func() {
			if g.Enter(context.Background(), string(t)) == nil {
				through <- string(t)
			}
		}()
		synctest.Wait()
	}
	return through
}

func TestGateIsFair(t *testing.T) {
	for _, c := range []struct {
		places, share int
		holding, line string
		leave, want   string // who leaves, one after the other, and who comes through then
	}{
		{2, 2, "aa", "aab", "a", "b"},          // one of two places, although a came first
		{3, 3, "aab", "acb", "ab", "cb"},       // fewest first
		{1, 1, "a", "aabbc", "aabca", "abcab"}, // by turns where all hold none
		{3, 2, "aab", "aac", "b", "c"},         // a has its share
		{3, 1, "a", "aa", "a", "a"},            // places are free, and yet a waits
		{2, 1, "a", "a", "", ""},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGate(c.places, c.share)
				for _, who := range c.holding {
					if err := g.Enter(t.Context(), string(who)); err != nil {
						t.Fatal(err)
					}
				}
				through := line(g, c.line)
				got := ""
				for _, who := range c.leave {
					g.Leave(string(who))
					synctest.Wait()
					for len(through) > 0 {
						got += <-through
					}
				}
				if got != c.want {
					t.Errorf("came through: %q, want %q", got, c.want)
				}
				for range len(c.holding) + len(c.line) - len(c.leave) { // let everyone through
					for who := range g.turns.heldBy() {
						g.Leave(who)
						break
					}
					synctest.Wait()
				}
				if len(g.turns.heldBy()) != 0 || len(g.turns.inLine()) != 0 || len(g.lines) != 0 || g.turns.used != 0 {
					t.Errorf("not empty: %+v", g)
				}
			})
		})
	}
}

// The law of the gate, whatever comes: never more holders than places, nobody above the share, and nobody waits while
// a place is free and the share is not used up.
func TestGateModel(t *testing.T) {
	const seed, places, share = 11, 4, 3
	random := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(places, share)
		var cancels []context.CancelFunc
		failed := make(chan error, 1)
		for step := range 5_000 {
			tenant := string(rune('a' + random.IntN(4)))
			switch action := random.IntN(8); {
			case action < 4:
				ctx, cancel := context.WithCancel(t.Context())
				cancels = append(cancels, cancel)
				go func() {
					if err := g.Enter(ctx, tenant); err != nil && !errors.Is(err, context.Canceled) {
						failed <- err
					}
				}()
			case action < 7:
				if g.turns.heldBy()[tenant] > 0 {
					g.Leave(tenant)
				}
			case len(cancels) > 0:
				i := random.IntN(len(cancels))
				cancels[i]()
			}
			synctest.Wait()
			used := 0
			for who, n := range g.turns.heldBy() {
				used += n
				if n > share || n == 0 {
					t.Fatalf("seed %d, step %d: %s holds %d", seed, step, who, n)
				}
			}
			if used != g.turns.used || used > places {
				t.Fatalf("seed %d, step %d: %d hold, %d are counted", seed, step, used, g.turns.used)
			}
			for who := range g.turns.inLine() {
				if len(g.lines[who]) == 0 || used < places && g.turns.heldBy()[who] < share {
					t.Fatalf("seed %d, step %d: %s waits for nothing", seed, step, who)
				}
			}
		}
		for _, cancel := range cancels {
			cancel()
		}
		synctest.Wait()
		if len(g.turns.inLine()) != 0 || len(failed) != 0 {
			t.Errorf("seed %d: %d tenants still wait", seed, len(g.turns.inLine()))
		}
	})
}

// A place that is given at the moment of giving up goes to the next.
func TestGateGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 1)
		if err := g.Enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Enter(ctx, "b") }()
		synctest.Wait()
		through := line(g, "c")
		cancel()
		g.Leave("a")
		synctest.Wait()
		err := <-ended
		if err == nil {
			g.Leave("b")
		}
		if got := <-through; got != "c" || err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%q came through; %v", got, err)
		}
	})
}

// A holder gives its place to a tenant that holds fewer, and has it back when that one leaves; to its own tenant's
// calls it gives nothing.
func TestGateYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 1)
		if err := g.Enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if g.Yield(t.Context(), "a") {
			t.Error("a place was given to nobody")
		}
		through := line(g, "a")
		if g.Yield(t.Context(), "a") || len(through) > 0 {
			t.Error("a place was given to the same tenant")
		}
		second := line(g, "b")
		back := make(chan bool, 1)
		go func() { back <- g.Yield(t.Context(), "a") }()
		synctest.Wait()
		if len(second) != 1 || len(back) != 0 || len(through) != 0 {
			t.Fatalf("b through: %d, a back: %d, a's other through: %d", len(second), len(back), len(through))
		}
		g.Leave("b")
		synctest.Wait()
		if len(back) != 1 || !<-back || len(through) != 0 {
			t.Error("the place did not come back to the call that gave it away")
		}
		g.Leave("a")
		synctest.Wait()
		g.Leave("a")
		if len(g.turns.heldBy()) != 0 || len(g.turns.inLine()) != 0 || len(g.lines) != 0 || g.turns.used != 0 {
			t.Errorf("not empty: %+v", g)
		}
	})
}

// TestNextDue holds that a tenant gets its turn when its work is due, and that the first time to come is told.
func TestNextDue(t *testing.T) {
	now := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	due := map[string]time.Time{"late": now.Add(time.Hour), "soon": now.Add(time.Minute), "now": now}
	turns := NewTurns(2, 1)
	for _, tenant := range []string{"late", "soon", "none", "now"} {
		turns.Wait(tenant)
	}
	when := func(tenant string) (at time.Time, any bool) {
		at, any = due[tenant]
		return at, any
	}
	if tenant, _, ok := turns.NextDue(now, when); tenant != "now" || !ok {
		t.Errorf("%q, %t", tenant, ok)
	}
	if tenant, next, ok := turns.NextDue(now, when); ok || !next.Equal(due["soon"]) {
		t.Errorf("%q, %v, %t", tenant, next, ok)
	}
	due = map[string]time.Time{}
	if tenant, next, ok := turns.NextDue(now, when); ok || !next.IsZero() {
		t.Errorf("%q, %v, %t", tenant, next, ok)
	}
}
