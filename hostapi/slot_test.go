package hostapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// If there is only one slot, and a call would hold it for ever, another tenant's call is served in between. A module
// that limits its own memory is no exception.
func TestBurningCallGivesItsPlaceAway(t *testing.T) {
	for _, maxPages := range []uint32{0, 32} {
		t.Run(fmt.Sprint(maxPages), func(t *testing.T) { givesItsPlaceAway(t, maxPages) })
	}
}

func givesItsPlaceAway(t *testing.T, maxPages uint32) {
	limits := DefaultLimits()
	limits.Calls, limits.Fuel = 1, 1<<55
	timers := &hands{}
	h := newHost(t, Options{Limits: limits, NewTimer: timers.make, Clock: timers.now})
	good := twoRecords(mustLoad(t, h, guest{}.build()))
	good.Tenant = "neighbour"
	burning := twoRecords(mustLoad(t, h, guest{maxPages: maxPages,
		assemble: cat(ins(opLoop, void), ins(opBr, 0), ins(opEnd), konst(0))}.build()))
	ended := make(chan plan.Outcome)
	go func() { ended <- h.Run(t.Context(), burning) }()
	for !timers.newest().runs(limits.CallTime) { // until it burns fuel
	}
	burner := timers.newest()
	for range 3 {
		if out := h.Run(t.Context(), good); out.Status != plan.StatusOK {
			t.Errorf("%s: %s", out.Status, out.Detail)
		}
	}
	for {
		burner.runDown()
		select {
		case out := <-ended:
			if out.Status != plan.StatusTimeout {
				t.Errorf("%s: %s", out.Status, out.Detail)
			}
			return
		default:
		}
	}
}

// TestOnePlaceIsLeft expects a tenant to use all slots while it is the only one, and to leave one while another one is
// active.
func TestOnePlaceIsLeft(t *testing.T) {
	limits := DefaultLimits()
	limits.Calls = 3
	h := newHost(t, Options{Limits: limits})
	atOnce, cancel := context.WithCancel(t.Context())
	cancel() // so that nothing waits
	fill := func(tenant string) (n int) {
		var held []slot
		for {
			p, err := h.enter(atOnce, tenant)
			if err != nil {
				break
			}
			held = append(held, p)
		}
		for _, p := range held {
			p.leave()
		}
		return len(held)
	}
	if n := fill("one"); n != 3 {
		t.Errorf("alone it has %d places", n)
	}
	if n := fill("two"); n != 2 {
		t.Errorf("beside another it has %d places", n)
	}
	if n := fill("one"); n != 2 {
		t.Errorf("behind another it has %d places", n)
	}
}

// Executing a plan uses the call's fuel and time, and when they run out, the call ends.
func TestPlanIsPartOfTheCall(t *testing.T) {
	timers := &hands{}
	h := newHost(t, Options{NewTimer: timers.make, Clock: timers.now})
	c := twoRecords(mustLoad(t, h, returnsPlan(planBytes("code", opBytes(1, 0, 0, 1, 0, 0, 48, 4))).build()))
	read := h.Run(t.Context(), c)
	spend := func(m plan.Meter, fuel int) error {
		for {
			if err := m.Spend(fuel); err != nil {
				return err
			}
		}
	}
	for name, test := range map[string]struct {
		apply  func(plan.Meter) error
		status plan.Status
		words  string
	}{
		"in order": {func(m plan.Meter) error { return m.Spend(1000) }, plan.StatusOK, ""},
		"fuel":     {func(m plan.Meter) error { return spend(m, 1000) }, plan.StatusFuelExhausted, "carrying out the plan: "},
		"too much, and nothing said": {func(m plan.Meter) error { _ = m.Spend(1 << 40); return nil },
			plan.StatusFuelExhausted, "more than"},
		"time": {func(m plan.Meter) error {
			timers.newest().runDown()
			return spend(m, 0)
		}, plan.StatusTimeout, "carrying out the plan: more than 150ms"},
		"bad": {func(plan.Meter) error { return &plan.BadPlanError{Op: 1, Detail: "wrong"} }, plan.StatusBadPlan,
			"op 1: wrong"},
		"unreadable": {func(plan.Meter) error { return errors.New("damaged") }, plan.StatusUnavailable, "damaged"},
	} {
		c.Apply = func(ops []plan.Op, m plan.Meter) error {
			if len(ops) != 1 {
				t.Errorf("%d ops", len(ops))
			}
			return test.apply(m)
		}
		out := h.Run(t.Context(), c)
		if out.Status != test.status || !strings.Contains(out.Detail, test.words) {
			t.Errorf("%s: %s: %s", name, out.Status, out.Detail)
		}
		if name == "in order" && out.Fuel != read.Fuel+1000 {
			t.Errorf("%d fuel, %d without the plan", out.Fuel, read.Fuel)
		}
		if (out.Ops != nil) != (out.Status == plan.StatusOK) {
			t.Errorf("%s: ops %v", name, out.Ops)
		}
	}
}

// A pause stops the clock of a call, and its end restarts it with the time that was left.
func TestPausedClock(t *testing.T) {
	h, timers := endless(t)
	c := twoRecords(mustLoad(t, h, guest{}.build()))
	h.Run(t.Context(), c)
	in := h.pool.take(poolKey{"t", h.modules.loaded[moduleKey{"", c.Module}], sizeSmall})
	defer in.close(t.Context())
	in.tank.fill(100, 10, time.Hour, timers.now())
	in.tank.pause()
	timers.pass(2 * time.Hour)
	timer := timers.newest()
	timer.runDown()
	if in.tank.late {
		t.Error("the clock runs in a pause")
	}
	in.tank.resume()
	if !timer.running || timer.set > time.Hour || timer.set < time.Minute {
		t.Errorf("it runs: %v, for %v", timer.running, timer.set)
	}
	if !in.tank.end() {
		t.Error("a pause spoils the call")
	}
}

// A reused memory is all zero, and no more memories are kept than allowed.
func TestBuffers(t *testing.T) {
	b := buffers{limit: 3 * 4096}
	first := b.take(4096)
	first[4095] = 1
	b.put(first)
	if again := b.take(4096); &again[0] != &first[0] || !allZero(again) {
		t.Error("not the same memory, or not zero")
	}
	for range 5 {
		b.put(make([]byte, 4096))
	}
	b.put(make([]byte, 1<<20))
	if len(b.kept) != 3 || b.bytes != 3*4096 {
		t.Errorf("%d kept, %d bytes", len(b.kept), b.bytes)
	}
	if other := b.take(100); len(other) != 100 || len(b.kept) != 3 {
		t.Error("a memory of another size was given")
	}
}

// A guest fills all of its memory, however it has grown and however the call ends, and the memory is reused for another
// tenant's instance: that tenant's guest, which reads before it fills, finds nothing.
func TestMemoryOfOneTenantIsClearForAnother(t *testing.T) {
	fill := func(pages int32) []byte {
		return cat(konst(0), konst(0xaa), konst(pages*pageBytes), ins(0xfc, 0x0b, 0))
	}
	for _, grown := range [][]int32{{1}, {2, 1}, {3, 3, 7}, {20}, {61}} {
		var growing []byte
		pages := int32(3)
		for _, n := range grown {
			growing = cat(growing, grow(n), fill(pages)) // the new part is not filled
			pages += n
		}
		last := (pages - 1) * pageBytes
		found := cat(load(last), load(last+pageBytes/2), ins(opAdd), load(last+pageBytes-4), ins(opAdd))
		for end, code := range map[string][]byte{"returns": nil, "traps": ins(opUnreachable)} {
			t.Run(fmt.Sprint(grown, end), func(t *testing.T) {
				h := newHost(t, Options{})
				good := twoRecords(mustLoad(t, h, guest{assemble: cat(growing, show(found), fill(pages))}.build()))
				leaves := twoRecords(mustLoad(t, h, guest{assemble: cat(growing, fill(pages), code, konst(-1))}.build()))
				again := 0
				for i := range 6 {
					leaves.Tenant, good.Tenant = fmt.Sprint("a", i), fmt.Sprint("b", i)
					if out := h.Run(t.Context(), leaves); (out.Status == plan.StatusTrap) != (code != nil) {
						t.Fatalf("%+v", out)
					}
					for _, memory := range h.buffers.kept {
						if !allZero(memory[:cap(memory)]) {
							t.Fatalf("a memory of %d bytes is kept with what a guest left in it", cap(memory))
						}
						again++
					}
					out := h.Run(t.Context(), good)
					if out.Status != plan.StatusAuthorError || out.Detail != "mneme_assemble returned -1" {
						t.Fatalf("another tenant's guest found something: %+v", out)
					}
				}
				if again == 0 {
					t.Error("no memory was kept")
				}
			})
		}
	}
}

// A module that limits its own memory grows up to that limit, and no further.
func TestMaximumOfTheModule(t *testing.T) {
	for pages, want := range map[int32]string{29: "-33", 30: "-4", 1 << 15: "-4"} {
		g := guest{maxPages: 32, assemble: cat(grow(pages), show(ins(opMemorySize, 0)))}
		if out := runGuest(t, Options{}, g); out.Detail != "mneme_assemble returned "+want {
			t.Errorf("%d more pages: %+v", pages, out)
		}
	}
}

// An idle instance keeps no reference to the last call, nor to the request that the call was part of.
func TestIdleInstanceForgetsTheCall(t *testing.T) {
	h := newHost(t, Options{})
	c := twoRecords(mustLoad(t, h, guest{}.build()))
	h.Run(t.Context(), c)
	in := h.pool.newest
	if in == nil || in.slot != nil || in.request != nil || in.texts != nil {
		t.Errorf("%+v", in)
	}
}
