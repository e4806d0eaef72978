// Command wasm is the module of the built-in policy delegation-filter.
package main

import (
	delegationfilter "github.com/seed-0906e6bc/mneme/policies/delegation-filter"
	mneme "github.com/seed-0906e6bc/mneme/sdk/policy/go"
)

var _ = mneme.Register(delegationfilter.Assemble)

func main() {}
