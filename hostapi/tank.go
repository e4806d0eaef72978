package hostapi

import (
	"fmt"
	"sync"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// Fuel that host functions cost: about as much as the guest would use in the same time. Work that fuel cannot predict,
// such as reading from the store, is limited by the clock.
const (
	fuelPerCall      = 50 // every host call
	bytesPerFuel     = 8  // text copied or searched
	fuelPerTokenised = 16 // per byte whose tokens are counted
	fuelPerAnalysed  = 16 // per byte that is split into words
	fuelPerVector    = 16 // per item of a list
)

// Timer calls its function each time it expires. A *time.Timer is one.
type Timer interface {
	Reset(d time.Duration) bool
	Stop() bool // false if it has expired since it was set
}

// systemTimer returns a stopped timer.
func systemTimer(f func()) Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}

// tank holds what an instance may still spend: fuel and depth, which are globals that instrument.go added to the guest,
// and time. The guest cannot be interrupted. When its time is up, the tank is drained, and the guest stops at its next
// refill.
//
// Setting a timer costs more than a short policy does, so a call sets one only if none expires before its time is up. A
// timer that expires early checks the clock, and is set again for the rest of the current call.
//
// The lock only orders the host's goroutines. The guest takes no lock, and may write back a value that it read before
// the tank was drained, so the tank is drained again and again until the call has ended. Each global is one aligned
// word.
type tank struct {
	tank, slice, depth api.MutableGlobal
	timer              Timer
	clock              func() time.Time

	mu      sync.Mutex
	filled  int64
	nested  int
	time    time.Duration // granted
	left    time.Duration // the rest of it, at since
	since   time.Time
	expires time.Time // when the timer expires; zero if it is not set
	running bool
	paused  bool
	late    bool
	spentBy int64 // fuel that was spent when the time was up
}

const (
	// drained is far below zero and far from overflowing.
	drained = -1 << 62
	// drainAgain is the time until the tank is drained again.
	drainAgain = time.Millisecond
)

func newTank(guest api.Module, h *Host) (*tank, error) {
	t := &tank{clock: h.clock}
	for name, global := range map[string]*api.MutableGlobal{
		wasm.TankExport: &t.tank, wasm.SliceExport: &t.slice, wasm.DepthExport: &t.depth,
	} {
		var ok bool
		if *global, ok = guest.ExportedGlobal(name).(api.MutableGlobal); !ok {
			return nil, fmt.Errorf("the module has no global %s", name)
		}
	}
	t.timer = h.newTimer(t.expire)
	return t, nil
}

// fill grants fuel, depth, and the time d, which starts at now. now may be slightly in the past.
func (t *tank) fill(fuel, depth int, d time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.filled, t.nested, t.time, t.running, t.paused, t.late = int64(fuel), depth, d, true, false, false
	rest, slice := wasm.Fill(t.filled)
	t.tank.Set(uint64(rest))
	t.slice.Set(uint64(slice))
	t.depth.Set(uint64(depth))
	t.grant(d, now)
}

// grant lets the call run for d from now on. The lock must be held.
func (t *tank) grant(d time.Duration, now time.Time) {
	t.left, t.since = d, now
	if end := now.Add(d); t.expires.IsZero() || t.expires.After(end) {
		t.expires = end
		t.timer.Reset(d)
	}
}

// end ends the grant. It returns false if the time was up.
func (t *tank) end() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = false
	return !t.late
}

// close stops the timer of a tank that is never filled again.
func (t *tank) close() { t.timer.Stop() }

// pause stops the clock until resume.
func (t *tank) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = true
	t.left -= t.clock().Sub(t.since)
}

func (t *tank) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = false
	t.grant(max(t.left, drainAgain), t.clock())
}

// take charges n fuel for work of the host during a call. It uses only the tank, because the guest may hold the slice
// in a register. If the tank is overdrawn, the call ends at its next refill.
func (t *tank) take(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tank.Set(t.tank.Get() - uint64(n))
}

// expire drains the tank if the time of the call is up.
func (t *tank) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expires = time.Time{}
	if !t.running || t.paused {
		return
	}
	now := t.clock()
	if left := t.left - now.Sub(t.since); left > 0 && !t.late {
		t.grant(left, now)
		return
	}
	if !t.late {
		t.late, t.spentBy = true, t.read().Spent(t.filled)
	}
	t.tank.Set(uint64(1<<64 + drained))
	t.grant(drainAgain, now)
}

// read returns the remaining fuel. The lock must be held.
func (t *tank) read() wasm.Reading {
	return wasm.Reading{Tank: int64(t.tank.Get()), Slice: int64(t.slice.Get()), Depth: int64(t.depth.Get())}
}

// spent returns the fuel used since the last fill.
func (t *tank) spent() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late {
		return uint64(t.spentBy)
	}
	return uint64(t.read().Spent(t.filled))
}

// charge takes n fuel for work of the host: first from the tank, then from the rest of the slice.
func (t *tank) charge(n int) *ending {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late {
		return t.timeout()
	}
	left := t.read()
	left.Tank -= int64(n)
	if left.Tank < 0 {
		left.Slice += left.Tank
		left.Tank = 0
	}
	t.tank.Set(uint64(left.Tank))
	t.slice.Set(uint64(left.Slice))
	if left.OutOfFuel() {
		return t.exhausted()
	}
	return nil
}

// ranDry returns which of time, fuel and depth ran out, or nil if the call trapped for another reason.
func (t *tank) ranDry() *ending {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch left := t.read(); {
	case t.late:
		return t.timeout()
	case left.OutOfFuel():
		return t.exhausted()
	case left.TooDeep():
		return endingf(plan.StatusDepth, "more than %d nested calls", t.nested)
	}
	return nil
}

func (t *tank) timeout() *ending { return endingf(plan.StatusTimeout, "more than %v", t.time) }
func (t *tank) exhausted() *ending {
	return endingf(plan.StatusFuelExhausted, "more than %d fuel", t.filled)
}
