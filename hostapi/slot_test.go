package hostapi

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Where there is one place, and a call that would hold it for ever, another tenant's call is served meanwhile.
func TestBurningCallGivesItsPlaceAway(t *testing.T) {
	limits := DefaultLimits()
	limits.Calls, limits.Fuel = 1, 1<<55
	timers := &hands{}
	h := newHost(t, Options{Limits: limits, NewTimer: timers.make})
	good := twoRecords(mustLoad(t, h, guest{}.build()))
	good.Tenant = "neighbour"
	burning := twoRecords(mustLoad(t, h, guest{assemble: cat(ins(opLoop, void), ins(opBr, 0), ins(opEnd), konst(0))}.build()))
	ended := make(chan plan.Outcome)
	go func() { ended <- h.Run(t.Context(), burning) }()
	for !timers.newest().runs(limits.CallTime) { // until it burns
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

// Carrying out a plan is on the call's fuel and time, and its end is the call's.
func TestPlanIsPartOfTheCall(t *testing.T) {
	timers := &hands{}
	h := newHost(t, Options{NewTimer: timers.make})
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

// A pause stops the clock of a call, and its end starts it with the time that was left.
func TestPausedClock(t *testing.T) {
	h, timers := endless(t)
	c := twoRecords(mustLoad(t, h, guest{}.build()))
	h.Run(t.Context(), c)
	in := h.pool.take(poolKey{"t", h.modules.loaded[moduleKey{"t", c.Module}], sizeSmall})
	defer in.close(t.Context())
	in.tank.fill(100, 10, time.Hour)
	in.tank.pause()
	timer := timers.newest()
	if timer.runDown() {
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

// A memory that is used again is all zero, and no more are kept than may be.
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
