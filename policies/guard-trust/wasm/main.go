// Command wasm is the module of the built-in policy guard-trust.
package main

import (
	guardtrust "github.com/seed-0906e6bc/mneme/policies/guard-trust"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var _ = mneme.RegisterHook(mneme.Admit, guardtrust.Admit)

func main() {}
