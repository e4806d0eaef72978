package hostapi

import (
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// pageBytes is the unit in which WebAssembly counts memory, and maxPages the most that it can count.
const (
	pageBytes = 64 << 10
	maxPages  = 1 << 16
)

// prepare checks a module and rewrites it so that it pays for what it does. Memory is bounded here and not in the
// rewritten module: the allocator sees growth refused, and so a trap that follows can be told from any other.
func (h *Host) prepare(code []byte) (*wasm.Prepared, error) {
	limits := wasm.DefaultLimits()
	limits.MemoryPages = maxPages
	prepared, err := wasm.Prepare(code, limits)
	if err != nil {
		return nil, err
	}
	found, limit := int64(prepared.Info.MemoryMin), int64(h.limits.MemoryBytes/pageBytes)
	if found > limit {
		return nil, &Refusal{Check: checkMemory, Found: found, Limit: limit}
	}
	for i := range prepared.Checks {
		if c := &prepared.Checks[i]; c.Name == checkMemory {
			c.Detail = fmt.Sprintf("%d of %d", found, limit)
		}
	}
	return prepared, nil
}

// Fuel that host functions cost: about what the same time would cost inside the guest.
const (
	fuelPerCall      = 50 // every host call
	bytesPerFuel     = 8  // text copied or searched
	fuelPerTokenised = 32 // each byte whose tokens are counted
)

// tank is the fuel and the depth of an instance: globals that rewriting added to the guest.
type tank struct {
	tank, slice, depth api.MutableGlobal
	filled             int64
}

func newTank(guest api.Module) (t tank, err error) {
	for name, global := range map[string]*api.MutableGlobal{
		wasm.TankExport: &t.tank, wasm.SliceExport: &t.slice, wasm.DepthExport: &t.depth,
	} {
		var ok bool
		if *global, ok = guest.ExportedGlobal(name).(api.MutableGlobal); !ok {
			return tank{}, fmt.Errorf("the module has no global %s", name)
		}
	}
	return t, nil
}

// fill grants what the next call may spend.
func (t *tank) fill(fuel, depth int) {
	t.filled = int64(fuel)
	rest, slice := wasm.Fill(t.filled)
	t.tank.Set(uint64(rest))
	t.slice.Set(uint64(slice))
	t.depth.Set(uint64(depth))
}

// read looks at what is left.
func (t *tank) read() wasm.Reading {
	return wasm.Reading{Tank: int64(t.tank.Get()), Slice: int64(t.slice.Get()), Depth: int64(t.depth.Get())}
}

// spent is what was used of the last fill.
func (t *tank) spent() uint64 { return uint64(t.read().Spent(t.filled)) }

// ranDry says whether a call was stopped because fuel or depth ran out.
func (in *instance) ranDry(function string) *ending {
	switch left := in.tank.read(); {
	case left.OutOfFuel():
		return endingf(plan.StatusFuelExhausted, "%s: more than %d fuel", function, in.tank.filled)
	case left.TooDeep():
		return endingf(plan.StatusDepth, "%s: more than %d nested calls", function, in.limits.Depth)
	}
	return nil
}

// spend charges the guest for work of the host: first the tank, then what is left of the slice.
func (in *instance) spend(n int) {
	left := in.tank.read()
	left.Tank -= int64(n)
	if left.Tank < 0 {
		left.Slice += left.Tank
		left.Tank = 0
	}
	in.tank.tank.Set(uint64(left.Tank))
	in.tank.slice.Set(uint64(left.Slice))
	if left.OutOfFuel() {
		in.stop(plan.StatusFuelExhausted, "more than %d fuel", in.tank.filled)
	}
}
