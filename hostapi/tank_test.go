package hostapi

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// handTimer expires when the test says so, and sets its clock forward to that time.
type handTimer struct {
	mu      sync.Mutex
	hands   *hands
	call    func()
	running bool
	set     time.Duration
}

func (h *handTimer) Reset(d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.running
	h.running, h.set = true, d
	return was
}

func (h *handTimer) Stop() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.running
	h.running = false
	return was
}

// runDown calls the function if the timer is running.
func (h *handTimer) runDown() bool {
	h.mu.Lock()
	was := h.running
	if was {
		h.hands.pass(h.set)
	}
	h.mu.Unlock()
	h.expire()
	return was
}

// expire calls the function if the timer is running, whatever the clock says.
func (h *handTimer) expire() {
	h.mu.Lock()
	was := h.running
	h.running = false
	h.mu.Unlock()
	if was {
		h.call()
	}
}

// runs reports whether the timer is running and was set to d or less: a call that rests sets its timer again, to the
// time that is left.
func (h *handTimer) runs(d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running && h.set <= d
}

// hands are the timers of a host, one per instance, and its clock, which is ahead of the system's.
type hands struct {
	mu     sync.Mutex
	timers []*handTimer
	ahead  time.Duration
	start  time.Time // of a clock that stands still but for what passes; zero: the real time
}

func (h *hands) make(f func()) Timer {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timers = append(h.timers, &handTimer{hands: h, call: f})
	return h.timers[len(h.timers)-1]
}

func (h *hands) newest() *handTimer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.timers[len(h.timers)-1]
}

func (h *hands) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += d
}

func (h *hands) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.start.IsZero() {
		return time.Now().Add(h.ahead)
	}
	return h.start.Add(h.ahead)
}

// endless returns a host whose fuel never ends and whose timers the test controls.
func endless(t *testing.T) (*Host, *hands) {
	limits := DefaultLimits()
	limits.Fuel = 1 << 55
	timers := &hands{start: time.Unix(1_800_000_000, 0)}
	return newHost(t, Options{Limits: limits, NewTimer: timers.make, Clock: timers.now}), timers
}

// signalled are texts that signal when the guest asks for one.
type signalled struct {
	texts
	asked chan struct{}
	reply chan struct{}
}

func (s signalled) Text(record int) ([]byte, error) {
	s.asked <- struct{}{}
	<-s.reply
	return s.texts.Text(record)
}

func TestDeadlineStopsTheGuest(t *testing.T) {
	h, timers := endless(t)
	forever := cat(ins(opLoop, void), ins(opBr, 0), ins(opEnd), konst(0))
	c := twoRecords(mustLoad(t, h, guest{assemble: forever}.build()))
	for range 100 { // the time of one call may be over before its guest begins, but not of all of them
		if out := h.stopped(t, timers, c); out.Fuel > 0 && out.Fuel <= uint64(h.limits.Fuel) {
			return
		}
	}
	t.Error("no call that was stopped had used fuel")
}

// stopped makes a call that never ends, and expires its timer.
func (h *Host) stopped(t *testing.T, timers *hands, c plan.Call) plan.Outcome {
	ended := make(chan plan.Outcome)
	go func() { ended <- h.Run(context.Background(), c) }()
	timer := timers.newest()
	for ; !timer.runs(h.limits.CallTime); timer = timers.newest() {
		timer.runDown() // it may be set first for the instance's start, which ended before, and then for the call
		runtime.Gosched()
	}
	// The guest may write back what it read just before, so the timer must continue until the call has ended.
	var out plan.Outcome
	for running := true; running; {
		select {
		case out = <-ended:
			running = false
		default:
			timer.runDown()
		}
	}
	if out.Status != plan.StatusTimeout || !strings.Contains(out.Detail, "mneme_assemble: more than 150ms") {
		t.Errorf("%s: %s", out.Status, out.Detail)
	}
	if timer.runDown() || h.pool.kinds() != 0 {
		t.Error("the timer or the instance outlived the call")
	}
	return out
}

// A call that ended in time before gets more time, so that a busy machine does not change a replay.
func TestRepeatedCallsGetMoreTime(t *testing.T) {
	h, timers := endless(t)
	c := twoRecords(mustLoad(t, h, hostGuest(show(call(fnText, 0, 0, 64, 4))).build()))
	for _, test := range []struct {
		again  bool
		takes  time.Duration
		status plan.Status
	}{
		{false, h.limits.CallTime - time.Second/100, plan.StatusAuthorError},
		{false, h.limits.CallTime, plan.StatusTimeout},
		{true, 10 * h.limits.CallTime, plan.StatusAuthorError},
		{true, againTimes * h.limits.CallTime, plan.StatusTimeout},
	} {
		c.Again = test.again
		if out := h.takes(timers, c, test.takes); out.Status != test.status {
			t.Errorf("again %t: a call of %v ended as %s", test.again, test.takes, out.Status)
		}
	}
}

// takes makes a call whose guest asks for a text, which takes d.
func (h *Host) takes(timers *hands, c plan.Call, d time.Duration) plan.Outcome {
	s := signalled{c.Texts.(texts), make(chan struct{}), make(chan struct{})}
	c.Texts = s
	ended := make(chan plan.Outcome)
	go func() { ended <- h.Run(context.Background(), c) }()
	<-s.asked
	timers.pass(d)
	timers.newest().expire()
	s.reply <- struct{}{}
	return <-ended
}

// The time of host functions counts: the guest does not continue after its deadline.
func TestDeadlineCountsHostFunctions(t *testing.T) {
	h, timers := endless(t)
	c := twoRecords(mustLoad(t, h, hostGuest(show(call(fnText, 0, 0, 64, 4))).build()))
	if out := h.takes(timers, c, h.limits.CallTime); out.Status != plan.StatusTimeout ||
		!strings.Contains(out.Detail, "mneme.text: more than") {
		t.Errorf("%s: %s", out.Status, out.Detail)
	}
}

// A timer that was set for a call does not affect a later one of the same instance, except that it is set again for the
// time that this one has left.
func TestTimerOfAnEarlierCall(t *testing.T) {
	h, timers := endless(t)
	c := twoRecords(mustLoad(t, h, guest{}.build()))
	if out := h.Run(t.Context(), c); out.Status != plan.StatusOK || h.pool.kinds() != 1 {
		t.Fatalf("%+v", out)
	}
	timer := timers.newest()
	in := h.pool.take(poolKey{"t", h.modules.find("t", c.Module), sizeSmall})
	defer in.close(t.Context())
	timer.runDown()
	if timer.running {
		t.Error("a timer without a call is set again")
	}
	in.tank.fill(100, 10, time.Second, timers.now())
	if !in.tank.end() {
		t.Error("a call without a fault is not clean")
	}
	timers.pass(time.Second / 2)
	in.tank.fill(100, 10, time.Second, timers.now())
	timers.pass(time.Second / 2)
	timer.expire()
	if in.tank.late || timer.set > time.Second/2 || timer.set < time.Second/4 {
		t.Errorf("late %t, and set for %v: half of the time is left", in.tank.late, timer.set)
	}
	timer.runDown()
	if !in.tank.late || in.tank.end() {
		t.Error("a call beyond its time is not drained")
	}
	timer.runDown()
	if timer.running || in.tank.tank.Get() != uint64(1<<64+drained) {
		t.Error("the timer did something after the end")
	}
}

func TestDeadlineOfTheStart(t *testing.T) {
	limits := DefaultLimits()
	limits.StartFuel = 1 << 55
	timers := &hands{}
	h := newHost(t, Options{Limits: limits, Clock: timers.now, NewTimer: func(f func()) Timer {
		timer := timers.make(f)
		go func() {
			for t.Context().Err() == nil && !timer.(*handTimer).runDown() {
			}
			for timer.(*handTimer).runDown() {
			}
		}()
		return timer
	}})
	forever := cat(ins(opLoop, void), ins(opBr, 0), ins(opEnd))
	_, err := h.Load(t.Context(), "t", guest{initialize: forever}.build())
	want := "timeout: _initialize: more than 1s"
	if r, ok := errors.AsType[*plan.Refusal](err); !ok || r.Check != checkStart || r.Detail != want {
		t.Errorf("%v", err)
	}
}
