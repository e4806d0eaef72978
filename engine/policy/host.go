package policy

import (
	"context"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// Host runs policy modules. It is the only door by which a policy takes part.
type Host interface {
	// Load admits a module for a tenant, "" for one that comes with Mneme, and makes it ready to run. The error of a
	// module that may not run is a *plan.Refusal. Loading the same bytes again costs nothing.
	Load(ctx context.Context, tenant string, wasm []byte) (plan.Policy, error)
	// Loaded reports whether a module is ready to run: what was not used for long may have been unloaded.
	Loaded(digest plan.Digest) bool
	// Run makes one call. It never panics and never fails: what goes wrong is the outcome's status.
	Run(ctx context.Context, call plan.Call) plan.Outcome
}

// BuiltIn is a policy that comes with Mneme, as bytes like any other.
type BuiltIn struct {
	Name string
	Wasm []byte
}
