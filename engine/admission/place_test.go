package admission

import (
	"context"
	"testing"
	"testing/synctest"
)

// A holder that waits has left its place to the next one, and is back at once when it waits no longer.
func TestPauseLeavesThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 1)
		place, err := g.Hold(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx := place.With(t.Context())
		through := line(g, "b")
		if len(through) != 0 {
			t.Fatal("b came through a full gate")
		}
		resume, again := Pause(ctx), Pause(ctx) // two goroutines of one holder
		synctest.Wait()
		if len(through) != 1 || g.Waiting() != 0 {
			t.Fatal("a place that was paused is not free")
		}
		again()
		resume() // although the gate is full
		if g.turns.used != 2 {
			t.Fatalf("%d places are taken, want 2", g.turns.used)
		}
		late := Pause(ctx)
		place.Leave()
		late()
		g.Leave("b")
		if g.turns.used != 0 || len(g.turns.heldBy()) != 0 {
			t.Errorf("%d places are left over, %v", g.turns.used, g.turns.heldBy())
		}
		Pause(context.Background())() // where there is no place, nothing happens
	})
}

// Who waits in a line has left its place, too.
func TestLinesPauseThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, lines := NewGate(1, 1), NewLines(1)
		leave, err := lines.Enter(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		place, _ := gate.Hold(t.Context(), "a")
		done := make(chan error, 1)
		go func() {
			leave, err := lines.Enter(place.With(t.Context()), "x")
			leave()
			done <- err
		}()
		synctest.Wait()
		if gate.turns.used != 0 {
			t.Error("the place is held while its holder waits in a line")
		}
		leave()
		if err := <-done; err != nil || gate.turns.used != 1 {
			t.Errorf("%v, %d", err, gate.turns.used)
		}
	})
}

// Who waits in a second gate has left its place in the first.
func TestEnterPausesTheOuterPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := NewGate(1, 1), NewGate(1, 1)
		place, _ := outer.Hold(t.Context(), "a")
		_ = inner.Enter(t.Context(), "x")
		done := make(chan error, 1)
		go func() { done <- inner.Enter(place.With(t.Context()), "a") }()
		synctest.Wait()
		if outer.turns.used != 0 {
			t.Error("the outer place is held while its holder waits")
		}
		inner.Leave("x")
		if err := <-done; err != nil || outer.turns.used != 1 {
			t.Errorf("%v, %d", err, outer.turns.used)
		}
	})
}

// A tenant has its whole share while it is alone, and less while another one is about.
func TestCrowd(t *testing.T) {
	g := NewGate(4, 3)
	g.Crowd(1, 2)
	turns := g.turns
	take := func(tenant string) (n int) {
		for turns.Take(tenant) {
			n++
		}
		for range n {
			turns.Free(tenant)
		}
		return n
	}
	if n := take("a"); n != 3 {
		t.Errorf("alone: %d places, want 3", n)
	}
	if n := take("b"); n != 1 {
		t.Errorf("beside another one: %d places, want 1", n)
	}
	for range activeGrants {
		take("b")
	}
	if n := take("b"); n != 3 {
		t.Errorf("alone again: %d places, want 3", n)
	}
}

// Those that departed count as inside, beside another tenant alone. They come back also where the gate is full.
func TestDeparted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(4, 3)
		g.Crowd(1, 2)
		var back []func()
		depart := func(tenant string) {
			place, err := g.Hold(t.Context(), tenant)
			if err != nil {
				t.Fatal(err)
			}
			resume := Depart(place.With(t.Context()))
			back = append(back, func() { resume(); place.Leave() })
		}
		for range 5 {
			depart("a") // which is alone, so that any number may be away
		}
		depart("b")
		entered := make(chan struct{})
		go func() { depart("a"); close(entered) }()
		synctest.Wait()
		for i := range 4 {
			if n := g.WaitingOf("a"); n != 1 {
				t.Fatalf("%d of five came back, and %d of the tenant wait, want 1", i, n)
			}
			back[i]()
		}
		<-entered
		for _, resume := range back[4:] {
			resume()
		}
		if g.turns.used != 0 || len(g.turns.tenants) != 0 {
			t.Errorf("left behind: %d used, %v", g.turns.used, g.turns.tenants)
		}
	})
}
