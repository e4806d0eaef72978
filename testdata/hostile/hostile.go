// Package hostile holds modules that mean harm, each in its own way, and how each must end: refused at upload by a
// named check, or stopped at the call with a named outcome. They are assembled by hand, so that no toolchain is needed
// and each does one thing. What they build is committed as modules/NAME.wasm; `go generate ./hostapi` writes it anew.
package hostile

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Attack is one hostile module.
type Attack struct {
	Name string
	Doc  string // what it tries

	// Check is the one that refuses it at upload; empty where it is admitted.
	Check string
	// Status is how a call of an admitted one ends.
	Status plan.Status
	// Rule of the law that its window breaks, where the call is in order and the plan too.
	Rule string
	// Words that the refusal or the outcome's detail must hold.
	Words string

	// Large ones are built where they are needed, and not committed.
	Large bool
	Build func() []byte
}

// Attacks returns all of them.
func Attacks() []Attack {
	return slices.Concat(shapes(), compileBombs(), interfaces(), burners(), growers(), callers(), floods(), planners(),
		keepers(), sleepers())
}

// Named returns one of them; ok is false where there is none of that name.
func Named(name string) (a Attack, ok bool) {
	all := Attacks()
	at := slices.IndexFunc(all, func(a Attack) bool { return a.Name == name })
	if at < 0 {
		return Attack{}, false
	}
	return all[at], true
}

// Keepers are modules that try to tell a later call of an earlier one: every call must answer what the first did.
func Keepers() []Attack { return keepers() }

// Sleepers are modules that behave as long as a request has at most SelfTestRecords, as those of self-tests do.
func Sleepers() []Attack { return sleepers() }

// SelfTestRecords is the length up to which sleepers behave.
const SelfTestRecords = 8

// Records is the length of the request that the outcomes are noted for: a conversation in which every fourth record,
// from the first on, is a user's, and the next one a tool call that the one behind it answers. Each has 100 tokens and
// a text of 64 KiB, and the budget is 2,000 tokens.
const Records = 16
