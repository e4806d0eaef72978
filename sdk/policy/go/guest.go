//go:build tinygo.wasm || wasip1

package mneme

import "unsafe"

// guest is the state of the only instance in a module's memory. Exports are functions without a receiver, so the state
// is global.
var guest struct {
	policy  [hookCount]Policy
	request Request
	plan    Plan
	arenas  [2][]uint64
}

const (
	arenaRequest = 0
	arenaPlan    = 1
)

// hookCount is one more than the highest Hook.
const hookCount = 6

// Errors of a call that violates the ABI, or of a module that registers no policy.
const (
	errNoPolicy = Error("mneme: the module registers no policy for this hook")
	errArena    = Error("mneme: call outside the arenas")
)

// Register sets the module's policy for windows: `var _ = mneme.Register(policy)`. The main function of a module is
// never run.
func Register(policy Policy) struct{} { return RegisterHook(Assemble, policy) }

// RegisterHook sets the module's policy for a hook, which the manifest must list. A module may have several hooks.
func RegisterHook(hook Hook, policy Policy) struct{} {
	guest.policy[hook] = policy
	return struct{}{}
}

//go:wasmexport mneme_abi
func exportABI() int32 { return Version }

//go:wasmexport mneme_arena
func exportArena(kind, size int32) int32 {
	if uint32(kind) >= uint32(len(guest.arenas)) || size <= 0 {
		return 0
	}
	guest.arenas[kind] = make([]uint64, (uint32(size)+7)/8)
	return address(guest.arenas[kind])
}

//go:wasmexport mneme_assemble
func exportAssemble(req, reqLen, plan, planCap int32) int32 {
	return answer(Assemble, req, reqLen, plan, planCap)
}

//go:wasmexport mneme_plan
func exportPlan(req, reqLen, plan, planCap int32) int32 {
	hook := Hook(0) // which has no policy
	if request, ok := area(arenaRequest, req, reqLen); ok && len(request) >= preambleSize {
		hook = (*preamble)(unsafe.Pointer(unsafe.SliceData(request))).Hook
	}
	return answer(hook, req, reqLen, plan, planCap)
}

// answer calls the policy of a hook. It returns the length of the plan, or -1 after an error.
//
//go:noinline
func answer(hook Hook, req, reqLen, plan, planCap int32) int32 {
	n, err := 0, error(errArena)
	request, okRequest := area(arenaRequest, req, reqLen)
	buffer, okPlan := area(arenaPlan, plan, planCap)
	switch {
	case hook >= hookCount || guest.policy[hook] == nil:
		err = errNoPolicy
	case okRequest && okPlan:
		n, err = call(guest.policy[hook], &guest.request, &guest.plan, request, buffer)
	}
	if err != nil {
		text := err.Error()
		hostFail(unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
		return -1
	}
	return int32(n)
}

// area returns the part of an arena that the host refers to. Using the arenas keeps their memory alive.
func area(kind int, at, size int32) ([]byte, bool) {
	arena := guest.arenas[kind]
	if len(arena) == 0 || at != address(arena) || uint32(size) > uint32(len(arena))*8 {
		return nil, false
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&arena[0])), uint32(size)), true
}

func address(arena []uint64) int32 { return int32(uintptr(unsafe.Pointer(&arena[0]))) }
