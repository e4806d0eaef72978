package hostapi

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// handTimer runs down when the test says so.
type handTimer struct {
	mu      sync.Mutex
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

// runDown calls the function if the timer runs.
func (h *handTimer) runDown() bool {
	h.mu.Lock()
	was := h.running
	h.running = false
	h.mu.Unlock()
	if was {
		h.call()
	}
	return was
}

// runs tells whether the timer runs and was set to d or less: a call that rests sets its timer again, to what is left.
func (h *handTimer) runs(d time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running && h.set <= d
}

// hands are the timers of a host, one per instance.
type hands struct {
	mu     sync.Mutex
	timers []*handTimer
}

func (h *hands) make(f func()) Timer {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timers = append(h.timers, &handTimer{call: f})
	return h.timers[len(h.timers)-1]
}

func (h *hands) newest() *handTimer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.timers[len(h.timers)-1]
}

// endless is a host whose fuel never ends and whose timers the test runs down.
func endless(t *testing.T) (*Host, *hands) {
	limits := DefaultLimits()
	limits.Fuel = 1 << 55
	timers := &hands{}
	return newHost(t, Options{Limits: limits, NewTimer: timers.make}), timers
}

// signalled are texts that tell when the guest asks for one.
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
	ended := make(chan plan.Outcome)
	go func() { ended <- h.Run(context.Background(), c) }()
	timer := timers.newest()
	for ; !timer.runs(h.limits.CallTime); timer = timers.newest() {
		runtime.Gosched()
	}
	// The guest may put back what it read just before: so the timer must go on until the call has ended.
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
	if out.Fuel == 0 || out.Fuel > uint64(h.limits.Fuel) {
		t.Errorf("%d fuel", out.Fuel)
	}
	if timer.runDown() || len(h.pool.top) != 0 {
		t.Error("the timer or the instance outlived the call")
	}
}

// A call that ended within its time before gets more of it, so that a busy machine does not make a replay differ.
func TestRepeatedCallsGetMoreTime(t *testing.T) {
	h, timers := endless(t)
	c := twoRecords(mustLoad(t, h, guest{}.build()))
	for again, want := range map[bool]time.Duration{false: h.limits.CallTime, true: againTimes * h.limits.CallTime} {
		c.Again = again
		if out := h.Run(t.Context(), c); out.Status != plan.StatusOK || timers.newest().set != want {
			t.Errorf("again %t: %s within %v", again, out.Status, timers.newest().set)
		}
	}
}

// Time that a host function takes counts: the guest does not get to run on.
func TestDeadlineCountsHostFunctions(t *testing.T) {
	h, timers := endless(t)
	c := twoRecords(mustLoad(t, h, hostGuest(show(call(fnText, 0, 0, 64, 4))).build()))
	s := signalled{c.Texts.(texts), make(chan struct{}), make(chan struct{})}
	c.Texts = s
	ended := make(chan plan.Outcome)
	go func() { ended <- h.Run(context.Background(), c) }()
	<-s.asked
	if !timers.newest().runDown() {
		t.Error("no timer runs")
	}
	s.reply <- struct{}{}
	if out := <-ended; out.Status != plan.StatusTimeout || !strings.Contains(out.Detail, "mneme.text: more than") {
		t.Errorf("%s: %s", out.Status, out.Detail)
	}
}

// An instance whose timer ran down as its call ended is not used again: the timer might drain the next call's tank.
func TestLateInstanceIsNotKept(t *testing.T) {
	h, timers := endless(t)
	c := twoRecords(mustLoad(t, h, guest{}.build()))
	if out := h.Run(t.Context(), c); out.Status != plan.StatusOK || len(h.pool.top) != 1 {
		t.Fatalf("%+v", out)
	}
	timer := timers.newest()
	in := h.pool.take(poolKey{"t", h.modules.find("t", c.Module), sizeSmall})
	in.tank.fill(100, 10, time.Second)
	timer.runDown()
	if in.tank.end() {
		t.Error("a drained tank counts as clean")
	}
	in.tank.fill(100, 10, time.Second)
	timer.mu.Lock()
	timer.running = false // it has run down, and its call is on the way
	timer.mu.Unlock()
	if in.tank.end() {
		t.Error("a timer on its way counts as clean")
	}
	timer.call()
	if timer.running || in.tank.late {
		t.Error("the timer did something after the end")
	}
	in.close(t.Context())
}

func TestDeadlineOfTheStart(t *testing.T) {
	limits := DefaultLimits()
	limits.StartFuel = 1 << 55
	timers := &hands{}
	h := newHost(t, Options{Limits: limits, NewTimer: func(f func()) Timer {
		timer := timers.make(f)
		go func() {
			for !timer.(*handTimer).runDown() {
			}
			for timer.(*handTimer).runDown() {
			}
		}()
		return timer
	}})
	forever := cat(ins(opLoop, void), ins(opBr, 0), ins(opEnd))
	_, err := h.Load(t.Context(), "t", guest{initialize: forever}.build())
	want := "timeout: _initialize: more than 1s"
	if r, ok := err.(*plan.Refusal); !ok || r.Check != checkStart || r.Detail != want {
		t.Errorf("%v", err)
	}
}
