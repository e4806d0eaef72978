package hostapi

import (
	"context"
	"runtime"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
)

// quantum is how long a call keeps its slot while another tenant waits for one, and breath how long it keeps its
// processor while something else waits for that. Most calls end sooner: yielding would only make them hold a slot for
// longer.
const (
	quantum = time.Millisecond
	breath  = 50 * time.Microsecond
)

// slot is what a tenant holds of Limits.Calls while it computes.
type slot struct {
	request context.Context // the request that the call belongs to, which may hold a slot in the server
	gate    *admission.Gate
	tenant  string
	since   time.Time // when it was granted, or granted again
	ran     time.Time // when others were last allowed to run
}

type slotKey struct{}

// enter waits for a slot.
func (h *Host) enter(ctx context.Context, tenant string) (slot, error) {
	if err := h.calls.Enter(ctx, tenant); err != nil {
		return slot{}, err
	}
	now := h.clock()
	return slot{ctx, h.calls, tenant, now, now}, nil
}

// within adds a copy of the slot to the context, for instances that are created with it.
func (p slot) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, slotKey{}, &p)
}

func (p slot) leave() { p.gate.Leave(p.tenant) }

func slotOf(ctx context.Context) *slot {
	p, _ := ctx.Value(slotKey{}).(*slot)
	return p
}

// rest lets others run. It is called for each slice of a guest's fuel, and for each part of the host's work for a
// guest. If another tenant waits for a slot, this call gives up its own and waits for its tenant's next turn. The
// call's time is paused meanwhile.
func (in *instance) rest() {
	p, clock := in.slot, in.tank.clock
	if p == nil {
		runtime.Gosched()
		return
	}
	now := clock()
	if now.Sub(p.ran) < breath {
		return
	}
	runtime.Gosched()
	p.ran = now
	if now.Sub(p.since) < quantum {
		return
	}
	in.tank.pause()
	p.gate.Yield(p.request, p.tenant)
	in.tank.resume()
	p.since = clock()
}
