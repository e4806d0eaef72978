package hostapi

import (
	"context"
	"runtime"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/admission"
)

// quantum is how long a call keeps its place while another tenant waits for one, and breath how long it keeps its
// processor while something else waits for that. Most calls end sooner: they would let others run while they hold a
// place that others wait for.
const (
	quantum = time.Millisecond
	breath  = 50 * time.Microsecond
)

// slot is what a tenant holds of Limits.Calls while it computes.
type slot struct {
	request context.Context // what the call belongs to, which may hold a place at the edge
	gate    *admission.Gate
	tenant  string
	since   time.Time // it was given, or given again
	ran     time.Time // when others were last let run
}

type slotKey struct{}

// enter waits for a place.
func (h *Host) enter(ctx context.Context, tenant string) (slot, error) {
	if err := h.calls.Enter(ctx, tenant); err != nil {
		return slot{}, err
	}
	now := h.clock()
	return slot{ctx, h.calls, tenant, now, now}, nil
}

// within carries a copy of the place to instances that are made in the context.
func (p slot) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, slotKey{}, &p)
}

func (p slot) leave() { p.gate.Leave(p.tenant) }

func slotOf(ctx context.Context) *slot {
	p, _ := ctx.Value(slotKey{}).(*slot)
	return p
}

// rest lets others run. A guest comes here with each slice of fuel, and the host with each part of what it does for
// one. Where another tenant waits for a place, this call gives its own away for that tenant's turn. The time of the
// call does not go on meanwhile.
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
