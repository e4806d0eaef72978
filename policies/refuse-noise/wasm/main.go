// Command wasm is the module of the built-in policy refuse-noise.
package main

import (
	refusenoise "github.com/seed-0906e6bc/mneme/policies/refuse-noise"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var _ = mneme.RegisterHook(mneme.Admit, refusenoise.Admit)

func main() {}
