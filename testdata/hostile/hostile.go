// Package hostile has hostile modules, and how each must end: refused at upload by a named check, or stopped at the
// call with a named outcome. They are assembled by hand, so that no toolchain is needed and each does one thing. The
// built modules are committed as modules/NAME.wasm; `go generate ./hostapi` writes them again.
package hostile

import (
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Attack is one hostile module.
type Attack struct {
	Name string
	Doc  string // what it tries

	// Check is the check that refuses it at upload; empty if it is admitted.
	Check string
	// Status is the outcome of a call, if it is admitted.
	Status plan.Status
	// Rule is the rule of the validity check that its window breaks, if the call and the plan are valid.
	Rule string
	// Words must occur in the refusal or in the outcome's detail.
	Words string

	// Large modules are built when they are needed, and not committed.
	Large bool
	Build func() []byte
}

// Attacks returns all attacks.
func Attacks() []Attack {
	return slices.Concat(shapes(), compileBombs(), interfaces(), burners(), growers(), callers(), floods(), planners(),
		keepers(), sleepers())
}

// Named returns the attack with a name; ok is false if there is none.
func Named(name string) (a Attack, ok bool) {
	all := Attacks()
	at := slices.IndexFunc(all, func(a Attack) bool { return a.Name == name })
	if at < 0 {
		return Attack{}, false
	}
	return all[at], true
}

// Keepers returns modules that try to pass information from one call to a later one: every call must return what the
// first did.
func Keepers() []Attack { return keepers() }

// Sleepers returns modules that behave as long as a request has at most SelfTestRecords records, as in self-tests.
func Sleepers() []Attack { return sleepers() }

// SelfTestRecords is the maximum length at which sleepers behave.
const SelfTestRecords = 8

// Records is the length of the request for which the outcomes are listed: a conversation in which every fourth record,
// from the first on, is a user's, and the next one a tool call, which the record after it answers. Each has 100 tokens
// and a text of 64 KiB, and the budget is 2,000 tokens.
const Records = 16
