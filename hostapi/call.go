package hostapi

import (
	"context"
	"errors"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Run makes one policy call. It always returns an outcome, whatever the guest does. Fuel and time limit the call
// itself; ctx limits the wait for a free slot.
//
// The outcome is StatusUnavailable if the policy is not at fault: the module is not loaded, the request does not fit
// into the largest arena, or a text cannot be read.
func (h *Host) Run(ctx context.Context, call plan.Call) plan.Outcome {
	m := h.modules.use(call.Tenant, call.Module)
	if m == nil {
		return failure(endingf(plan.StatusUnavailable, "module %x is not loaded", call.Module))
	}
	defer h.modules.done(m)
	if !m.Has(call.Request.Hook) {
		return failure(endingf(plan.StatusUnavailable, "the module does not have the hook %s", call.Request.Hook))
	}
	l, err := layoutOf(call.Request)
	if err != nil {
		return failure(endingf(plan.StatusUnavailable, "%v", err))
	}
	slot, err := h.enter(ctx, call.Tenant)
	if err != nil {
		return failure(neverServed(err))
	}
	defer slot.leave()
	key := poolKey{call.Tenant, m, l.size}
	in, begun := h.pool.take(key), slot.since
	if in == nil {
		var ended *ending
		if in, ended = h.instantiate(slot.within(ctx), key); ended != nil {
			return failure(ended)
		}
		begun = h.clock()
	}
	in.own, in.slot = slot, &in.own
	out := in.run(&call, l, begun)
	// The instance is reused after a failure, too, because making a new one keeps the garbage collector busy. Restoring
	// undoes everything that a failed call did.
	if !in.clean || !in.restore() {
		in.close(ctx)
		return out
	}
	h.keep(in)
	return out
}

func failure(e *ending) plan.Outcome { return plan.Outcome{Status: e.status, Detail: e.detail} }

// neverServed distinguishes a call that waited too long for a slot from one whose caller gave up. Neither is the
// policy's fault.
func neverServed(err error) *ending {
	if errors.Is(err, context.DeadlineExceeded) {
		return endingf(plan.StatusUnavailable, "no slot became free in time")
	}
	return endingf(plan.StatusUnavailable, "the call was given up before it had a slot")
}

// againTimes multiplies the time of a call that ended in time before. Its fuel does not change.
const againTimes = 20

// run makes the call in a started instance: encode, call, decode, apply. All but the first use the call's fuel, and all
// of them its time, which starts at begun.
func (in *instance) run(call *plan.Call, l layout, begun time.Time) plan.Outcome {
	in.usage = usage{request: call.Request, texts: call.Texts, random: call.Request.Seed,
		textRoom: roomForTexts(in.limits, call.Request.Records)}
	in.memory.refused = false
	in.cards.Set(0)
	in.dirty = dirty{from: int(in.requests), to: int(in.requests) + l.end}
	if err := encode(in.memory.bytes[in.requests:], call.Request, l); err != nil {
		return failure(endingf(plan.StatusUnavailable, "%v", err))
	}
	in.stack = [4]uint64{uint64(in.requests), uint64(l.end), uint64(in.plans), uint64(in.key.size.plan())}
	limit := in.limits.CallTime
	if call.Again {
		limit *= againTimes
	}
	in.tank.fill(in.limits.Fuel+in.limits.FuelPerRecord*len(call.Request.Records), in.limits.Depth, limit, begun)
	var ops []plan.Op
	var ended *ending
	entry := in.entry(call.Request.Hook)
	if err := entry.CallWithStack(in.ctx, in.stack[:]); err != nil {
		ended = in.explain(entry.name, err)
	} else if ops, ended = in.answer(api.DecodeI32(in.stack[0])); ended == nil && call.Apply != nil {
		ended = in.apply(call, ops)
	}
	in.clean = in.tank.end()
	out := plan.Outcome{Status: plan.StatusOK, Fuel: in.tank.spent(), Log: in.log}
	if ended != nil {
		out.Status, out.Detail = ended.status, ended.detail
		return out
	}
	out.Ops = ops
	return out
}

// apply lets the engine execute the plan.
func (in *instance) apply(call *plan.Call, ops []plan.Op) *ending {
	const doing = "carrying out the plan"
	err := call.Apply(ops, meter{in})
	if ended := in.tank.charge(0); ended != nil {
		return ended.in(doing)
	}
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*plan.BadPlanError](err); ok {
		return endingf(plan.StatusBadPlan, "%v", bad)
	}
	return endingf(plan.StatusUnavailable, "%s: %v", doing, err)
}

// meter charges the engine's part of a call.
type meter struct{ in *instance }

func (m meter) Spend(fuel int) error {
	m.in.rest()
	if ended := m.in.tank.charge(fuel); ended != nil {
		return ended
	}
	return nil
}

// answer decodes what the guest returned.
func (in *instance) answer(n int32) ([]plan.Op, *ending) {
	if n < 0 {
		if in.failure == "" {
			return nil, endingf(plan.StatusAuthorError, "%s returned %d", in.entry(in.request.Hook).name, n)
		}
		return nil, endingf(plan.StatusAuthorError, "%s", in.failure)
	}
	if room := in.key.size.plan(); uint32(n) > room {
		return nil, endingf(plan.StatusBadPlan, "a plan of %d bytes in an area of %d", n, room)
	}
	ops, err := decode(in.memory.bytes[in.plans:][:n], in.asked(), in.reasons)
	if err == nil {
		return ops, nil
	}
	if wrong, ok := errors.AsType[*planError](err); ok && wrong.quota {
		return nil, endingf(plan.StatusHostQuota, "%v", err)
	}
	return nil, endingf(plan.StatusBadPlan, "%v", err)
}

// asked returns what the form of the call's plan depends on.
func (in *instance) asked() asked {
	a := asked{hook: in.request.Hook, minor: in.key.module.minor, maxText: in.limits.InsertedBytes}
	if longPlans(a.hook) {
		a.maxText = in.limits.StoredBytes
	}
	return a
}
