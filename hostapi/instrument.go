package hostapi

import (
	"errors"
	"fmt"

	"github.com/seed-0906e6bc/mneme/engine/plan"
	"github.com/seed-0906e6bc/mneme/hostapi/wasm"
)

// pageBytes is WebAssembly's unit of memory. maxPages is the largest possible number of pages.
const (
	pageBytes = 64 << 10
	maxPages  = 1 << 16
)

// prepare checks a module and rewrites it so that it counts its own fuel. The rewritten module does not limit its
// memory. The host's allocator does, so that a trap after refused growth can be distinguished from other traps, and so
// that it sees refills.
func (h *Host) prepare(code []byte) (*wasm.Prepared, error) {
	limits := wasm.DefaultLimits()
	limits.MemoryPages = maxPages
	prepared, err := wasm.Prepare(code, limits)
	if refusal, ok := errors.AsType[*wasm.Refusal](err); ok {
		return nil, new(plan.Refusal(*refusal))
	}
	if err != nil {
		return nil, err
	}
	found, limit := int64(prepared.Info.MemoryMin), int64(h.limits.MemoryBytes/pageBytes)
	if found > limit {
		return nil, &plan.Refusal{Check: checkMemory, Found: found, Limit: limit}
	}
	for i := range prepared.Checks {
		if c := &prepared.Checks[i]; c.Name == checkMemory {
			c.Detail = fmt.Sprintf("%d of %d", found, limit)
		}
	}
	return prepared, nil
}
